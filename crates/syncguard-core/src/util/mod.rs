//! Small tools that every layer above may use.

mod callback_panic;
pub(crate) mod pause;
mod setters;
mod timeout;

pub use self::callback_panic::catch_callback_panic;
pub use self::timeout::{ABANDONED_AFTER, answer_patience, checked_timeout};
