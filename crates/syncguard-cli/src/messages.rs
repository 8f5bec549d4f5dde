//! Standard error, which a thread of its own writes: a reader that stands still, such as a pager, a collector of logs or
//! a terminal after Ctrl-S, holds up no renewal, no tick and no signal.

use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

/// How many messages wait for the reader. What comes then is dropped and counted.
const WAITING: usize = 256;

/// How long this program waits at its end until its last messages are written. A reader that reads needs far less.
const LAST_WAIT: Duration = Duration::from_secs(1);

static QUEUE: OnceLock<Option<SyncSender<Order>>> = OnceLock::new();

static DROPPED: AtomicU64 = AtomicU64::new(0);

enum Order {
    Write(Vec<u8>),
    /// Tells when all before it is written.
    Answer(SyncSender<()>),
}

/// Standard error, as a writer that never waits and never fails. Each write is one message.
pub(crate) struct Messages;

impl Write for Messages {
    fn write(&mut self, message: &[u8]) -> io::Result<usize> {
        match queue() {
            Some(queue) => {
                if let Err(TrySendError::Full(_)) = queue.try_send(Order::Write(message.to_vec())) {
                    DROPPED.fetch_add(1, Ordering::Relaxed);
                }
            }
            None => write(message),
        }
        Ok(message.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Waits until everything is written, but no longer than this. Blocks the thread.
pub(crate) fn wait_until_written(longest: Duration) {
    let Some(queue) = QUEUE.get().and_then(Option::as_ref) else { return };
    let (answer, answered) = sync_channel(1);
    if queue.try_send(Order::Answer(answer)).is_ok() {
        let _ = answered.recv_timeout(longest);
    }
}

/// Waits for the last messages: at the end of the program, and before a question.
pub(crate) fn finish() {
    wait_until_written(LAST_WAIT);
}

/// `None` if no thread can be started.
fn queue() -> Option<&'static SyncSender<Order>> {
    let queue = QUEUE.get_or_init(|| {
        let (order, orders) = sync_channel(WAITING);
        let writer = thread::Builder::new().name("messages".to_owned());
        writer.spawn(move || write_all(&orders)).ok().map(|_| order)
    });
    queue.as_ref()
}

fn write_all(orders: &Receiver<Order>) {
    for order in orders {
        match order {
            Order::Write(message) => write(&message),
            Order::Answer(answer) => drop(answer.try_send(())),
        }
        let dropped = DROPPED.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            let says = "more messages were dropped, since nothing read them";
            write(format!("syncguard: {dropped} {says}\n").as_bytes());
        }
    }
}

fn write(message: &[u8]) {
    // A failure here cannot be reported anywhere.
    let _ = io::stderr().write_all(message);
}
