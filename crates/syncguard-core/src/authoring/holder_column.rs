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

/// True if a client that polls wrote the lock with this fence: it knows no such column, whose text then is that of an earlier
/// lock, if any. This library writes the column with each lock; for a holder that is turned off, the text is empty.
#[must_use]
pub fn is_polled(column: Option<&str>, fence: Fence) -> bool {
    text_of(column, fence).is_none()
}

/// The text in the column, if it was written for the lock with this fence.
fn text_of(column: Option<&str>, fence: Fence) -> Option<&str> {
    let (digits, text) = column?.split_once(' ')?;
    digits.parse::<Fence>().is_ok_and(|written| written == fence).then_some(text)
}
