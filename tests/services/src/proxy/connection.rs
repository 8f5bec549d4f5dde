//! One connection: two threads a direction, so that delayed bytes do not hold up those behind them.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::{Shared, lock};

#[derive(Debug)]
pub(super) struct Connection {
    shared: Arc<Shared>,
    client: TcpStream,
    server: TcpStream,
    /// Whether the client was sent something since it last sent something; a new one starts a
    /// flight too.
    answered: AtomicBool,
    /// Bytes of the current reply that the client was sent.
    reply: AtomicUsize,
    /// Whether a reply is being cut; what the client says to the part it gets is swallowed.
    cut: AtomicBool,
    /// Whether it is closed as soon as the client says something.
    forgotten: AtomicBool,
    /// Whether the direction to the client was ended; what the server still says is swallowed.
    half_closed: AtomicBool,
}

/// Bytes and when to send them.
type Chunk = (Instant, Vec<u8>);

impl Connection {
    /// Connects `client` to the upstream and starts to forward.
    pub(super) fn open(client: TcpStream, shared: &Arc<Shared>) -> io::Result<()> {
        let server = TcpStream::connect(shared.upstream)?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let connection = Arc::new(Self {
            shared: Arc::clone(shared),
            client,
            server,
            answered: AtomicBool::new(true),
            reply: AtomicUsize::new(0),
            cut: AtomicBool::new(false),
            forgotten: AtomicBool::new(false),
            half_closed: AtomicBool::new(false),
        });
        shared.register(&connection);
        lock(&shared.counters).connections += 1;

        let (requests, to_server) = channel();
        let (replies, to_client) = channel();
        connection.spawn(move |it| it.read_client(&requests));
        connection.spawn(move |it| it.read_server(&replies));
        connection.spawn(move |it| it.write_server(&to_server));
        connection.spawn(move |it| it.write_client(&to_client));
        Ok(())
    }

    pub(super) fn close(&self) {
        // Fails where the other side was faster.
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
    }

    pub(super) fn forget(&self) {
        self.forgotten.store(true, Ordering::SeqCst);
    }

    pub(super) fn half_close(&self) {
        self.half_closed.store(true, Ordering::SeqCst);
        let _ = self.client.shutdown(Shutdown::Write);
    }

    /// Runs one of the four loops; one that fails ends the connection.
    fn spawn(self: &Arc<Self>, run: impl FnOnce(&Self) -> io::Result<()> + Send + 'static) {
        let connection = Arc::clone(self);
        thread::spawn(move || {
            if run(&connection).is_err() {
                connection.close();
            }
        });
    }

    fn read_client(&self, requests: &Sender<Chunk>) -> io::Result<()> {
        read(&self.client, |bytes| {
            if self.forgotten.load(Ordering::SeqCst) {
                return self.close();
            }
            if self.answered.swap(false, Ordering::SeqCst) {
                lock(&self.shared.counters).flights += 1;
                self.reply.store(0, Ordering::SeqCst);
            }
            let (latency, frozen) = {
                let faults = lock(&self.shared.faults);
                (faults.to_server, faults.frozen)
            };
            if !frozen && !self.cut.load(Ordering::SeqCst) {
                lock(&self.shared.counters).bytes_to_server += bytes.len() as u64;
                pass_on(requests, latency, bytes);
            }
        })
    }

    fn read_server(&self, replies: &Sender<Chunk>) -> io::Result<()> {
        read(&self.server, |bytes| {
            let (latency, frozen) = {
                let faults = lock(&self.shared.faults);
                (faults.to_client, faults.frozen)
            };
            if !frozen {
                pass_on(replies, latency, bytes);
            }
        })
    }

    fn write_server(&self, requests: &Receiver<Chunk>) -> io::Result<()> {
        for (due, bytes) in requests {
            sleep_until(due);
            (&self.server).write_all(&bytes)?;
        }
        self.server.shutdown(Shutdown::Write)
    }

    fn write_client(&self, replies: &Receiver<Chunk>) -> io::Result<()> {
        for (due, bytes) in replies {
            sleep_until(due);
            if self.half_closed.load(Ordering::SeqCst) {
                continue;
            }
            let sent = self.reply.load(Ordering::SeqCst);
            let Some(cut) = lock(&self.shared.faults).cut(sent, bytes.len()) else {
                self.send_to_client(&bytes)?;
                continue;
            };
            // All before the write: who reads these bytes finds the cut counted, and can send
            // nothing more.
            self.cut.store(true, Ordering::SeqCst);
            lock(&self.shared.counters).cuts += 1;
            self.send_to_client(&bytes[..cut])?;
            self.close();
            return Ok(());
        }
        self.client.shutdown(Shutdown::Write)
    }

    fn send_to_client(&self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        // All before the write: whoever reads these bytes finds them counted.
        self.reply.fetch_add(bytes.len(), Ordering::SeqCst);
        lock(&self.shared.counters).bytes_to_client += bytes.len() as u64;
        self.answered.store(true, Ordering::SeqCst);
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

fn pass_on(chunks: &Sender<Chunk>, latency: Duration, bytes: &[u8]) {
    // Fails when the writing side is gone, and then the connection is being closed.
    let _ = chunks.send((Instant::now() + latency, bytes.to_vec()));
}

fn sleep_until(due: Instant) {
    let left = due.saturating_duration_since(Instant::now());
    if !left.is_zero() {
        thread::sleep(left);
    }
}
