//! The place of a guard of this process in the queue of its key.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::queues::{KeyQueue, WaitQueues};
use super::wait_queue::Number;
use crate::rt::Instant;
use crate::value::Key;

/// Stands for a guard of this process that has the lock. Its drop wakes the head of the queue.
pub(crate) struct LocalHolder {
    queues: WaitQueues,
    queue: Arc<KeyQueue>,
    number: Number,
    is_over: AtomicBool,
}

impl LocalHolder {
    /// The holder that had this number as a waiter.
    pub(super) fn new(queues: WaitQueues, queue: Arc<KeyQueue>, number: Number) -> Self {
        Self { queues, queue, number, is_over: AtomicBool::new(false) }
    }

    /// A guard that has got the lock without waiting in the queue. The store frees the lock at `until`, unless
    /// the guard extends it.
    pub(crate) fn unqueued(queues: &WaitQueues, key: &Key, until: Instant, now: Instant) -> Self {
        let (queue, number) = queues.enter(key, now, |queue| {
            let number = queue.next_number();
            queue.on_granted(number, until, now);
            number
        });
        Self::new(queues.clone(), queue, number)
    }

    /// The lock is released, or may be: wakes the head of the queue. Returns whether there is a head.
    pub(crate) fn release(&self) -> bool {
        self.is_over.store(true, Ordering::Relaxed);
        let now = Instant::now();
        self.queues.with(&self.queue, |queue| queue.on_released(self.number, now))
    }
}

impl Drop for LocalHolder {
    fn drop(&mut self) {
        if !self.is_over.load(Ordering::Relaxed) {
            self.release();
        }
    }
}
