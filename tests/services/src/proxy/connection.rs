//! One connection, with two threads for each direction, so that delayed bytes do not hold up the bytes behind them.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use super::faults::is_of_http2;
use super::gate::{Chunk, Gate};
use super::{Shared, lock};

#[derive(Debug)]
pub(super) struct Connection {
    shared: Arc<Shared>,
    client: TcpStream,
    server: TcpStream,
    /// True if the client got bytes since it last sent some. The first bytes of a connection start a flight too.
    answered: AtomicBool,
    /// The bytes of the current reply that were sent to the client.
    reply: AtomicUsize,
    /// True while a reply is being cut. Bytes that the client sends in answer to the first part are swallowed.
    cut: AtomicBool,
    /// True if the connection closes when the client sends again.
    forgotten: AtomicBool,
    /// True if all bytes are swallowed.
    silent: AtomicBool,
    /// The bytes to the server. Lock order: faults, this, counters.
    gate: Mutex<Gate>,
}

impl Connection {
    /// Connects `client` to the upstream and starts to forward.
    pub(super) fn open(client: TcpStream, shared: &Arc<Shared>) -> io::Result<()> {
        let server = TcpStream::connect(shared.upstream())?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (requests, to_server) = channel();
        let (replies, to_client) = channel();
        let connection = Arc::new(Self {
            shared: Arc::clone(shared),
            client,
            server,
            answered: AtomicBool::new(true),
            reply: AtomicUsize::new(0),
            cut: AtomicBool::new(false),
            forgotten: AtomicBool::new(false),
            silent: AtomicBool::new(false),
            gate: Mutex::new(Gate::new(requests)),
        });
        shared.register(&connection);
        lock(&shared.counters).connections += 1;

        connection.spawn(Self::read_client);
        connection.spawn(move |it| it.read_server(&replies));
        connection.spawn(move |it| it.write_server(&to_server));
        connection.spawn(move |it| it.write_client(&to_client));
        Ok(())
    }

    pub(super) fn close(&self) {
        lock(&self.gate).close();
        self.close_client();
        let _ = self.server.shutdown(Shutdown::Both);
    }

    pub(super) fn close_client(&self) {
        // Fails if the other side closed first.
        let _ = self.client.shutdown(Shutdown::Both);
    }

    pub(super) fn forget(&self) {
        self.forgotten.store(true, Ordering::SeqCst);
    }

    pub(super) fn silence(&self) {
        self.silent.store(true, Ordering::SeqCst);
    }

    pub(super) fn hold_from(&self, flight: Option<u64>) {
        lock(&self.gate).hold_from(flight);
    }

    pub(super) fn holds(&self) -> bool {
        lock(&self.gate).held() > 0
    }

    pub(super) fn holds_bytes(&self, bytes: &[u8]) -> bool {
        lock(&self.gate).holds_bytes(bytes)
    }

    #[cfg(test)]
    pub(super) fn ended(&self) -> bool {
        lock(&self.gate).ended()
    }

    pub(super) fn deliver(&self, written: &Sender<()>) {
        let mut gate = lock(&self.gate);
        lock(&self.shared.counters).bytes_to_server += gate.held() as u64;
        gate.deliver(written);
    }

    /// Runs one of the four loops. A loop that fails ends the connection.
    fn spawn(self: &Arc<Self>, run: impl FnOnce(&Self) -> io::Result<()> + Send + 'static) {
        let connection = Arc::clone(self);
        thread::spawn(move || {
            if run(&connection).is_err() {
                connection.close();
            }
        });
    }

    fn read_client(&self) -> io::Result<()> {
        let end = read(&self.client, |bytes| self.take_request(bytes));
        let mut gate = lock(&self.gate);
        if end.is_err() && !gate.caught() {
            return end;
        }
        gate.end();
        Ok(())
    }

    fn take_request(&self, bytes: &[u8]) {
        if self.forgotten.load(Ordering::SeqCst) {
            return self.close();
        }
        let is_request = !is_of_http2(bytes);
        if is_request && self.answered.swap(false, Ordering::SeqCst) {
            lock(&self.shared.counters).flights += 1;
            self.reply.store(0, Ordering::SeqCst);
        }
        let faults = lock(&self.shared.faults);
        if faults.ends_at(bytes) {
            drop(faults);
            return self.close();
        }
        if faults.frozen || self.silent.load(Ordering::SeqCst) || self.cut.load(Ordering::SeqCst) {
            return;
        }
        let mut gate = lock(&self.gate);
        let mut counters = lock(&self.shared.counters);
        if !gate.keeps(is_request.then_some(counters.flights), bytes) {
            counters.bytes_to_server += bytes.len() as u64;
            gate.pass(Chunk::after(faults.to_server, bytes));
        }
    }

    fn read_server(&self, replies: &Sender<Chunk>) -> io::Result<()> {
        read(&self.server, |bytes| {
            let (latency, frozen) = {
                let faults = lock(&self.shared.faults);
                (faults.to_client, faults.frozen)
            };
            if !frozen && !self.silent.load(Ordering::SeqCst) {
                // Fails if the writing side is gone, and then no reader is left.
                let _ = replies.send(Chunk::after(latency, bytes));
            }
        })
    }

    fn write_server(&self, requests: &Receiver<Chunk>) -> io::Result<()> {
        for Chunk { due, bytes, written } in requests {
            sleep_until(due);
            (&self.server).write_all(&bytes)?;
            if let Some(written) = written {
                let _ = written.send(());
            }
        }
        self.server.shutdown(Shutdown::Write)
    }

    fn write_client(&self, replies: &Receiver<Chunk>) -> io::Result<()> {
        let end = self.send_replies(replies);
        if end.is_err() && lock(&self.gate).caught() {
            // Without this loop, further bytes of the server are swallowed.
            return Ok(());
        }
        end
    }

    fn send_replies(&self, replies: &Receiver<Chunk>) -> io::Result<()> {
        for Chunk { due, bytes, .. } in replies {
            sleep_until(due);
            let sent = self.reply.load(Ordering::SeqCst);
            let cut = || lock(&self.shared.faults).cut(sent, bytes.len());
            let Some(cut) = (!is_of_http2(&bytes)).then(cut).flatten() else {
                self.send_to_client(&bytes)?;
                continue;
            };
            // All of this comes before the write: a client that reads these bytes finds the cut counted, and can send
            // nothing more.
            self.cut.store(true, Ordering::SeqCst);
            lock(&self.shared.counters).cuts += 1;
            self.send_to_client(&bytes[..cut])?;
            self.cut_client();
            return Ok(());
        }
        self.client.shutdown(Shutdown::Write)
    }

    /// Ends the connection; if bytes were ever held on it, only the client's side.
    fn cut_client(&self) {
        if lock(&self.gate).caught() {
            self.close_client();
        } else {
            self.close();
        }
    }

    fn send_to_client(&self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        // This comes before the write: a client that reads these bytes finds them counted.
        lock(&self.shared.counters).bytes_to_client += bytes.len() as u64;
        if !is_of_http2(bytes) {
            self.reply.fetch_add(bytes.len(), Ordering::SeqCst);
            self.answered.store(true, Ordering::SeqCst);
        }
        (&self.client).write_all(bytes)
    }
}

/// Reads until the end of the stream.
fn read(mut stream: &TcpStream, mut take: impl FnMut(&[u8])) -> io::Result<()> {
    let mut buffer = [0; 16 * 1024];
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            count => take(&buffer[..count]),
        }
    }
}

fn sleep_until(due: Instant) {
    let left = due.saturating_duration_since(Instant::now());
    if !left.is_zero() {
        thread::sleep(left);
    }
}
