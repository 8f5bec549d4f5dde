//! The use that a command makes of its store.

/// The use that a command makes of its store.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// It takes a lock.
    Lock,
    /// It changes what other machines seem to share, such as a schedule.
    Share,
    /// It looks, or takes away what is there. A file that does not exist holds nothing, and is not made.
    Look,
}
