//! Lets the bytes of a client through or holds them.

use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// Bytes and when to send them.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) due: Instant,
    pub(super) bytes: Vec<u8>,
    /// Notified when they were written.
    pub(super) written: Option<Sender<()>>,
}

impl Chunk {
    pub(super) fn after(latency: Duration, bytes: &[u8]) -> Self {
        Self { due: Instant::now() + latency, bytes: bytes.to_vec(), written: None }
    }
}

#[derive(Debug)]
pub(super) struct Gate {
    /// The sender to the server, until the end of the client's bytes was passed on.
    requests: Option<Sender<Chunk>>,
    /// Bytes of this flight or a later one, and all bytes behind them, are held.
    from: Option<u64>,
    held: Option<Vec<u8>>,
    /// True if bytes were ever held. From then on no event on the client's side closes the server's side, because the
    /// server may be busy with delivered bytes.
    caught: bool,
    /// True if the client ended while bytes are held.
    ended: bool,
}

impl Gate {
    pub(super) fn new(requests: Sender<Chunk>) -> Self {
        Self { requests: Some(requests), from: None, held: None, caught: false, ended: false }
    }

    pub(super) fn hold_from(&mut self, flight: Option<u64>) {
        self.from = flight;
    }

    /// How many bytes are held.
    pub(super) fn held(&self) -> usize {
        self.held.as_ref().map_or(0, Vec::len)
    }

    /// Returns whether these bytes are among those that are held.
    pub(super) fn holds_bytes(&self, bytes: &[u8]) -> bool {
        let held = self.held.as_deref().unwrap_or_default();
        held.windows(bytes.len()).any(|part| part == bytes)
    }

    pub(super) fn caught(&self) -> bool {
        self.caught
    }

    #[cfg(test)]
    pub(super) fn ended(&self) -> bool {
        self.ended
    }

    /// Returns whether these bytes are held. Bytes of no flight are held only behind others.
    pub(super) fn keeps(&mut self, flight: Option<u64>, bytes: &[u8]) -> bool {
        if let Some(held) = &mut self.held {
            held.extend_from_slice(bytes);
        } else if self.requests.is_some()
            && self.from.take_if(|from| Some(*from) <= flight).is_some()
        {
            self.held = Some(bytes.to_vec());
            self.caught = true;
        }
        self.held.is_some()
    }

    pub(super) fn pass(&self, chunk: Chunk) {
        if let Some(requests) = &self.requests {
            // Fails if the writing side is gone, because the connection is being closed then.
            let _ = requests.send(chunk);
        }
    }

    /// Passes on the held bytes, and the end of the client if it has ended.
    pub(super) fn deliver(&mut self, written: &Sender<()>) {
        if let Some(bytes) = self.held.take() {
            self.pass(Chunk { due: Instant::now(), bytes, written: Some(written.clone()) });
        }
        if self.ended {
            self.pass_end();
        }
    }

    /// The client has ended.
    pub(super) fn end(&mut self) {
        self.ended = true;
        if self.held.is_none() {
            self.pass_end();
        }
    }

    fn pass_end(&mut self) {
        if self.caught {
            self.pass(Chunk::after(END_LATER, &[]));
        }
        self.requests = None;
    }

    /// Drops the held bytes.
    pub(super) fn close(&mut self) {
        self.held = None;
        self.requests = None;
    }
}

/// How long the end of a client stays behind the delivered bytes: Firestore cancels a request if its sender ends
/// before the request is done.
const END_LATER: Duration = Duration::from_secs(1);
