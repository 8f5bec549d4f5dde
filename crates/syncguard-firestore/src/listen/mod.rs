//! Hearing that a lock's document is deleted: one `Listen` stream, while somebody waits.

mod board;
mod listener;
mod stream;

pub(crate) use self::listener::Listener;
