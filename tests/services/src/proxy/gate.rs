//! Where what a client sends is let through or kept back.

use std::mem;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// Bytes and when to send them.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) due: Instant,
    pub(super) bytes: Vec<u8>,
    /// Told when they were written.
    pub(super) written: Option<Sender<()>>,
}

impl Chunk {
    pub(super) fn after(latency: Duration, bytes: &[u8]) -> Self {
        Self { due: Instant::now() + latency, bytes: bytes.to_vec(), written: None }
    }
}

/// What happened to bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// They go through.
    No,
    /// They are the first of their connection that are held.
    First,
    /// They are held behind others.
    More,
}

#[derive(Debug)]
pub(super) struct Gate {
    /// The way to the server, until the end of what the client sends was passed on.
    requests: Option<Sender<Chunk>>,
    /// Whether the next bytes are held, and all behind them.
    marked: bool,
    held: Option<Vec<u8>>,
    /// Whether anything was ever held. From then on nothing that happens on the client's side closes
    /// the server's side, which may be busy with what it was delivered.
    caught: bool,
    /// Whether the client ended while bytes are held.
    ended: bool,
}

impl Gate {
    pub(super) fn new(requests: Sender<Chunk>) -> Self {
        Self { requests: Some(requests), marked: false, held: None, caught: false, ended: false }
    }

    pub(super) fn mark(&mut self, on: bool) {
        self.marked = on;
    }

    /// How many bytes are held.
    pub(super) fn held(&self) -> usize {
        self.held.as_ref().map_or(0, Vec::len)
    }

    pub(super) fn caught(&self) -> bool {
        self.caught
    }

    #[cfg(test)]
    pub(super) fn ended(&self) -> bool {
        self.ended
    }

    /// Holds the bytes if it has to. `next` tells whether any connection is to be caught, and is
    /// taken by the one that is.
    pub(super) fn keep(&mut self, bytes: &[u8], next: &mut bool) -> Kept {
        if let Some(held) = &mut self.held {
            held.extend_from_slice(bytes);
            return Kept::More;
        }
        if self.requests.is_none() || !(mem::take(&mut self.marked) || mem::take(next)) {
            return Kept::No;
        }
        self.held = Some(bytes.to_vec());
        self.caught = true;
        Kept::First
    }

    pub(super) fn pass(&self, chunk: Chunk) {
        if let Some(requests) = &self.requests {
            // Fails when the writing side is gone, and then the connection is being closed.
            let _ = requests.send(chunk);
        }
    }

    /// Passes on what is held, and the end behind it if the client has ended.
    pub(super) fn deliver(&mut self, written: &Sender<()>) {
        if let Some(bytes) = self.held.take() {
            self.pass(Chunk { due: Instant::now(), bytes, written: Some(written.clone()) });
        }
        if self.ended {
            self.pass_end();
        }
    }

    /// The client sends nothing more.
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

    /// Drops what is held.
    pub(super) fn close(&mut self) {
        self.held = None;
        self.requests = None;
    }
}

/// How long the end of a client stays behind what was delivered: Firestore cancels a request when it
/// sees its sender end before it is done.
const END_LATER: Duration = Duration::from_secs(1);
