//! The answer to a late writer.

use syncguard_core::Fence;

/// A write must not go in: a holder with a higher fence has written before, or nothing says that none has.
///
/// The lock of this writer is lost. Roll back, stop the work, and do not repeat the write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.text())]
#[non_exhaustive]
pub struct StaleFence {
    /// The fence of this writer.
    pub fence: Fence,
    /// The highest fence that the data was written under. `None` if there is none to compare with: no row has the key, what
    /// is stored is no fence, or a trigger of MySQL has hidden the answer, as
    /// [`for_column`](crate::FenceStatement::for_column) says.
    pub highest: Option<Fence>,
}

impl StaleFence {
    pub(crate) fn new(fence: Fence, highest: Option<Fence>) -> Self {
        Self { fence, highest }
    }

    fn text(&self) -> String {
        let Self { fence, highest } = self;
        match highest {
            Some(highest) => {
                format!("the fence {fence} is stale: a holder with the fence {highest} has written")
            }
            None => format!(
                "the fence {fence} cannot be compared: no row has the key, or what is stored is no fence (on MySQL: or a \
                 trigger took the answer away)"
            ),
        }
    }
}

/// Compares a fence with the answer of a [`FenceStatement`](crate::FenceStatement) or of the script for Redis, which is the
/// highest fence of the data, this one included.
///
/// The answer is a number of any type, as the driver returns it: `i64` of a row, `u64` of MySQL's last insert id.
///
/// ```
/// use syncguard_fenced::{Fence, check};
///
/// let fence = Fence::new(7)?;
/// assert!(check(fence, 7_i64).is_ok());
/// let stale = check(fence, 8_u64).unwrap_err();
/// assert_eq!(stale.highest, Some(Fence::new(8)?));
/// assert_eq!(
///     stale.to_string(),
///     "the fence 000000000000007 is stale: a holder with the fence 000000000000008 has written"
/// );
/// # Ok::<(), syncguard_fenced::LockError>(())
/// ```
///
/// # Errors
///
/// [`StaleFence`] unless the answer is this fence. An answer below it comes from no statement of this crate that did
/// anything, such as MySQL's last insert id 0 if no row has the key, so it is refused as well.
pub fn check(fence: Fence, answer: impl TryInto<i64>) -> Result<(), StaleFence> {
    let answer = answer.try_into().ok();
    if answer == Some(fence.as_i64()) {
        return Ok(());
    }
    let highest = answer.and_then(|answer| Fence::try_from(answer).ok());
    Err(StaleFence::new(fence, highest.filter(|highest| *highest > fence)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_own_fence_may_write() {
        let fence = Fence::new(7).unwrap();
        assert_eq!(check(fence, 7_i64), Ok(()));
        assert_eq!(check(fence, 7_u64), Ok(()));
        assert_eq!(check(fence, fence), Ok(()));
        for (answer, highest) in [(8, Some(8)), (6, None), (0, None), (-1, None), (i64::MAX, None)]
        {
            let highest = highest.map(|highest| Fence::new(highest).unwrap());
            assert_eq!(check(fence, answer), Err(StaleFence { fence, highest }), "{answer}");
        }
        assert!(check(fence, u64::MAX).is_err());
    }
}
