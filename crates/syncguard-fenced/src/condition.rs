//! Conditional writes: the data has a version, and a write states the version that it was decided by.

use syncguard_core::Fence;

use crate::stale::StaleFence;

/// The name for the fence in the metadata of an object.
pub const METADATA: &str = "syncguard-fence";

/// The condition of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a document has this version, or there is none")]
pub enum Precondition<V> {
    /// The document or object still has this version: Firestore's `updateTime`, `If-Match` of an object's tag.
    Unchanged(V),
    /// There is still none: Firestore's `exists: false`, `If-None-Match: *`.
    Absent,
}

/// Compares a fence with what was read, and returns the condition under which the write may go in.
///
/// `found` is what was read: the version, and the text of the fence that is stored with it, if there is one. The write stores
/// the new fence, which is the 15 digits of its `Display`, in the same place. If the store says that the condition does
/// not hold, another writer came in between: read and compare again.
///
/// ```
/// use syncguard_fenced::{Fence, Precondition, precondition};
///
/// // A document without a fence is from the time before fences: every fence may write.
/// let fence = Fence::new(7)?;
/// assert_eq!(precondition(fence, Some(("v1", None))), Ok(Precondition::Unchanged("v1")));
/// assert!(precondition(fence, Some(("v2", Some("000000000000008")))).is_err());
/// # Ok::<(), syncguard_fenced::LockError>(())
/// ```
///
/// **A version must be new after every write.** It is for Firestore's `updateTime`, a generation of Google Cloud Storage and
/// a tag of Azure. The tag of S3, MinIO and others is a hash of the bytes, without the metadata: if a later holder writes the
/// same bytes under a higher fence, the tag stays, and a stale writer's condition holds. There, put the fence into the
/// bytes, such as a field of the JSON, instead of the [`METADATA`].
///
/// **Do not delete the data**, because its fence is deleted with it, and a late writer finds none. Write an empty one.
///
/// # Errors
///
/// [`StaleFence`] if the stored fence is higher, or is no fence.
pub fn precondition<V>(
    fence: Fence,
    found: Option<(V, Option<&str>)>,
) -> Result<Precondition<V>, StaleFence> {
    let Some((version, stored)) = found else { return Ok(Precondition::Absent) };
    match stored.map(str::parse::<Fence>) {
        None => Ok(Precondition::Unchanged(version)),
        Some(Ok(highest)) if highest <= fence => Ok(Precondition::Unchanged(version)),
        Some(Ok(highest)) => Err(StaleFence::new(fence, Some(highest))),
        Some(Err(_)) => Err(StaleFence::new(fence, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_fence_may_write_again_and_a_lower_one_may_not() {
        let fence = Fence::new(7).unwrap();
        let stored = |text| precondition(fence, Some((1, Some(text))));
        assert_eq!(precondition::<u8>(fence, None), Ok(Precondition::Absent));
        assert_eq!(stored("000000000000006"), Ok(Precondition::Unchanged(1)));
        assert_eq!(stored("000000000000007"), Ok(Precondition::Unchanged(1)));
        let highest = Some(Fence::new(8).unwrap());
        assert_eq!(stored("000000000000008"), Err(StaleFence { fence, highest }));
        for text in ["", "6", "-00000000000006", "9000000000000000"] {
            assert_eq!(stored(text), Err(StaleFence { fence, highest: None }), "{text}");
        }
    }
}
