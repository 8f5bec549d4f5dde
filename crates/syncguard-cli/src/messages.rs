//! Standard error, which a thread of its own writes: a reader that stands still, such as a pager, a collector of logs or
//! a terminal after Ctrl-S, holds up no renewal, no tick and no signal.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

/// How many messages wait for the reader. Later messages are dropped and counted.
const WAITING: usize = 256;

/// How long this program waits at its end until its last messages are written. A reader that reads needs far less.
const LAST_WAIT: Duration = Duration::from_secs(1);

/// `None` if no thread can be started.
static QUEUE: OnceLock<Option<Queue>> = OnceLock::new();

/// Standard error, as a writer that never waits and never fails. Each write is one message.
pub(crate) struct Messages;

impl Write for Messages {
    fn write(&mut self, message: &[u8]) -> io::Result<usize> {
        match QUEUE.get_or_init(|| Queue::to(io::stderr()).ok()) {
            Some(queue) => queue.send(message),
            // A failure here cannot be reported anywhere.
            None => drop(io::stderr().write_all(message)),
        }
        Ok(message.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Waits for the last messages: at the end of the program, and before a question.
pub(crate) fn finish() {
    wait_until_written(LAST_WAIT);
}

/// Waits until everything is written, but no longer than this. Blocks the thread.
pub(crate) fn wait_until_written(longest: Duration) {
    if let Some(Some(queue)) = QUEUE.get() {
        queue.wait_until_written(longest);
    }
}

/// Keeps messages back until it is dropped: another writer has the terminal.
pub(crate) struct KeptBack {
    _go_on: Option<SyncSender<()>>,
}

/// Keeps messages back, as many as may wait.
pub(crate) fn hold() -> KeptBack {
    let queue = QUEUE.get_or_init(|| Queue::to(io::stderr()).ok());
    KeptBack { _go_on: queue.as_ref().and_then(Queue::hold) }
}

/// Messages on their way to a thread that writes them.
struct Queue {
    orders: SyncSender<Order>,
    dropped: Arc<AtomicU64>,
}

enum Order {
    Write(Vec<u8>),
    /// Tells when all before it is written.
    Answer(SyncSender<()>),
    /// Waits until the sender is dropped.
    Wait(Receiver<()>),
}

impl Queue {
    fn to(mut writer: impl Write + Send + 'static) -> io::Result<Self> {
        let (sender, orders) = sync_channel(WAITING);
        let dropped = Arc::new(AtomicU64::new(0));
        let queue = Self { orders: sender, dropped: Arc::clone(&dropped) };
        thread::Builder::new().name("messages".to_owned()).spawn(move || {
            // A failure here cannot be reported anywhere.
            let mut write = |message: &[u8]| drop(writer.write_all(message));
            for order in orders {
                match order {
                    Order::Write(message) => write(&message),
                    Order::Answer(answer) => {
                        let _ = answer.try_send(());
                    }
                    Order::Wait(wait) => drop(wait.recv()),
                }
                let count = dropped.swap(0, Ordering::Relaxed);
                if count > 0 {
                    let says = "messages were dropped here, since nothing read them";
                    write(format!("syncguard: {count} {says}\n").as_bytes());
                }
            }
        })?;
        Ok(queue)
    }

    fn send(&self, message: &[u8]) {
        if let Err(TrySendError::Full(_)) = self.orders.try_send(Order::Write(message.to_vec())) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes nothing until the sender is dropped.
    fn hold(&self) -> Option<SyncSender<()>> {
        let (go_on, wait) = sync_channel(0);
        self.orders.try_send(Order::Wait(wait)).ok().map(|()| go_on)
    }

    fn wait_until_written(&self, longest: Duration) {
        let (answer, answered) = sync_channel(1);
        if self.orders.try_send(Order::Answer(answer)).is_ok() {
            // A reader that stands still loses these messages.
            let _ = answered.recv_timeout(longest);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    /// A reader that reads one message for each permission.
    struct Slow(Receiver<()>, Sender<Vec<u8>>);

    impl Write for Slow {
        fn write(&mut self, message: &[u8]) -> io::Result<usize> {
            self.0.recv().map_err(io::Error::other)?;
            self.1.send(message.to_vec()).map_err(io::Error::other)?;
            Ok(message.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn messages_that_are_held_are_written_afterwards() {
        let ((permit, permits), (sender, read)) = (channel(), channel());
        let queue = Queue::to(Slow(permits, sender)).unwrap();
        (0..2).for_each(|_| permit.send(()).unwrap());
        queue.send(b"before");
        let held = queue.hold();
        queue.send(b"after");
        assert_eq!(read.recv().unwrap(), b"before");
        let (answer, answered) = sync_channel(1);
        queue.orders.send(Order::Answer(answer)).unwrap();
        // Without the hold, the thread would answer at once.
        assert!(answered.recv_timeout(Duration::from_millis(50)).is_err());
        drop(held);
        assert_eq!(read.recv().unwrap(), b"after");
        answered.recv().unwrap();
    }

    #[test]
    fn a_reader_that_stands_still_holds_up_nobody_and_learns_what_it_missed() {
        let ((permit, permits), (sender, read)) = (channel(), channel());
        let queue = Queue::to(Slow(permits, sender)).unwrap();
        for number in 0..WAITING + 9 {
            queue.send(format!("{number}\n").as_bytes());
        }
        queue.wait_until_written(Duration::from_millis(1));
        for _ in 0..=WAITING + 1 {
            permit.send(()).unwrap();
        }
        assert_eq!(read.recv().unwrap(), b"0\n");
        let second = String::from_utf8(read.recv().unwrap()).unwrap();
        let count = second.strip_prefix("syncguard: ").and_then(|rest| rest.split(' ').next());
        // The thread may have taken the first message out of the queue before the last ones came.
        assert!(matches!(count, Some("8" | "9")), "{second}");
        assert_eq!(read.recv().unwrap(), b"1\n");
    }
}
