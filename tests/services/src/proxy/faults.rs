//! What a proxy does to the bytes, and what it counts.

use std::ops::Sub;
use std::time::Duration;

/// Where connections are cut.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ReplyCut {
    /// Nowhere.
    #[default]
    Never,
    /// The next reply with this many bytes or more is cut after them, and that is it; 0: before its
    /// first byte.
    Once(usize),
    /// Every reply is cut after this many bytes; 0: before its first byte.
    Always(usize),
}

/// What went through a proxy. The difference of two is what went through in between.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Connections opened.
    pub connections: u64,
    /// Bytes the clients sent that were not swallowed; held ones count when they are delivered.
    pub bytes_to_server: u64,
    /// Bytes passed on to the clients.
    pub bytes_to_client: u64,
    /// Times a client sent something after it had been sent something, or first: its round trips,
    /// if it waits for answers.
    pub flights: u64,
    /// Connections closed by a [`ReplyCut`].
    pub cuts: u64,
    /// Times a connection was caught by a [`Hold`](super::Hold).
    pub held: u64,
}

impl Sub for Counters {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            connections: self.connections - earlier.connections,
            bytes_to_server: self.bytes_to_server - earlier.bytes_to_server,
            bytes_to_client: self.bytes_to_client - earlier.bytes_to_client,
            flights: self.flights - earlier.flights,
            cuts: self.cuts - earlier.cuts,
            held: self.held - earlier.held,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Faults {
    pub(super) to_server: Duration,
    pub(super) to_client: Duration,
    pub(super) frozen: bool,
    pub(super) cut: ReplyCut,
    /// Whether the next connection that sends something is held.
    pub(super) hold_next: bool,
}

impl Faults {
    /// How much of a chunk of `length` bytes gets through if `sent` bytes of its reply did; `None`:
    /// all, uncut.
    pub(super) fn cut(&mut self, sent: usize, length: usize) -> Option<usize> {
        let (ReplyCut::Once(after) | ReplyCut::Always(after)) = self.cut else {
            return None;
        };
        if sent + length < after {
            return None;
        }
        if matches!(self.cut, ReplyCut::Once(_)) {
            self.cut = ReplyCut::Never;
        }
        Some(after.saturating_sub(sent))
    }
}
