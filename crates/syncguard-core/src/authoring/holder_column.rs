//! A holder in a column beside the lock, for tables that other clients write too. Those clients leave columns that
//! they do not know unchanged, so the column may have the holder of an earlier lock.

use std::borrow::Cow;

use crate::value::{Fence, Holder};

/// A holder as one text: the label, then a line break and the note if there is one, and so on with each further field.
#[must_use]
pub fn holder_text(holder: &Holder) -> Cow<'_, str> {
    holder.lines()
}

/// The text of the column for the lock with this fence: the 15 digits, a space, and the [text](holder_text).
#[must_use]
pub fn bound_holder(holder: &Holder, fence: Fence) -> String {
    format!("{fence} {}", holder_text(holder))
}

/// The holder in the column, if the lock with this fence has one.
#[must_use]
pub fn holder_in(column: Option<&str>, fence: Fence) -> Option<Holder> {
    Holder::from_lines(text_of(column, fence)?)
}

/// True if the column was written for the lock with this fence, not for an earlier lock. A client that knows no holders
/// writes no column; a holder that is turned off has an empty text.
#[must_use]
pub fn has_holder(column: Option<&str>, fence: Fence) -> bool {
    text_of(column, fence).is_some()
}

/// The text in the column, if it was written for the lock with this fence.
fn text_of(column: Option<&str>, fence: Fence) -> Option<&str> {
    let (digits, text) = column?.split_once(' ')?;
    digits.parse::<Fence>().is_ok_and(|written| written == fence).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_belongs_to_the_lock_that_it_was_written_with() {
        let (fence, next) = (Fence::new(7).unwrap(), Fence::new(8).unwrap());
        let holder = Holder::new("web 1").unwrap();
        let noted = holder.clone().with_note("run 4").unwrap();
        assert_eq!(bound_holder(&holder, fence), "000000000000007 web 1");
        assert_eq!(bound_holder(&noted, fence), "000000000000007 web 1\nrun 4");
        for holder in [holder, noted, Holder::unnamed()] {
            let column = bound_holder(&holder, fence);
            assert!(has_holder(Some(&column), fence) && !has_holder(Some(&column), next));
            let found = holder_in(Some(&column), fence);
            let told = found.as_ref().map(|found| (found.label(), found.note()));
            let is_there = !holder.label().is_empty();
            assert_eq!(told, is_there.then(|| (holder.label(), holder.note())));
            assert_eq!(holder_in(Some(&column), next), None);
        }
        // An earlier version wrote a tab before some labels.
        let old = Some("000000000000007 \tweb");
        assert!(has_holder(old, fence) && holder_in(old, fence) == Holder::new("web").ok());
        for other in [None, Some(""), Some("7 web"), Some("000000000000007"), Some("web 1")] {
            assert!(!has_holder(other, fence), "{other:?}");
        }
    }
}
