//! The faults and the counters of a proxy.

use std::ops::Sub;
use std::time::Duration;

/// True for frames of HTTP/2 that belong to no request and no answer: settings, pings and windows.
pub(super) fn is_of_http2(mut bytes: &[u8]) -> bool {
    const KINDS: [u8; 3] = [4, 6, 8];
    // The length of what follows the header, the kind, a byte of flags and four of the stream's number.
    while let [high, middle, low, kind, rest @ ..] = bytes {
        let length = u32::from_be_bytes([0, *high, *middle, *low]) as usize;
        let Some(rest) = rest.get(5 + length..).filter(|_| KINDS.contains(kind)) else {
            return false;
        };
        bytes = rest;
    }
    bytes.is_empty()
}

/// The rule for cutting connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ReplyCut {
    /// Nowhere.
    #[default]
    Never,
    /// Cuts the next reply that has this many bytes after them, and no other reply. 0 cuts before the first byte.
    Once(usize),
}

/// Counts of a proxy. The difference of two counts is what happened in between.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Connections opened.
    pub connections: u64,
    /// Bytes that the clients sent and that were not swallowed. Held bytes count when they are delivered.
    pub bytes_to_server: u64,
    /// Bytes passed on to the clients.
    pub bytes_to_client: u64,
    /// How often a client sent bytes after it had received some, and the first time: its round trips, if it waits for
    /// answers. HTTP/2's own frames are neither sent nor received here.
    pub flights: u64,
    /// Connections closed by a [`ReplyCut`].
    pub cuts: u64,
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
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Faults {
    pub(super) to_server: Duration,
    pub(super) to_client: Duration,
    pub(super) frozen: bool,
    pub(super) cut: ReplyCut,
    /// The connection of a client that sends this ends.
    pub(super) ends_at: Vec<u8>,
}

impl Faults {
    /// Returns whether the connection ends at these bytes.
    pub(super) fn ends_at(&self, bytes: &[u8]) -> bool {
        let text = &self.ends_at;
        !text.is_empty() && bytes.windows(text.len()).any(|part| part.eq_ignore_ascii_case(text))
    }

    /// How much of a chunk of `length` bytes gets through after `sent` bytes of its reply; `None` if the chunk is not
    /// cut.
    pub(super) fn cut(&mut self, sent: usize, length: usize) -> Option<usize> {
        let ReplyCut::Once(after) = self.cut else { return None };
        if sent + length < after {
            return None;
        }
        self.cut = ReplyCut::Never;
        Some(after.saturating_sub(sent))
    }
}
