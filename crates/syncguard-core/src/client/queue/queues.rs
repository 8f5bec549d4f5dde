//! The queues of a backend in this process.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use super::fairness::Fairness;
use super::wait_queue::WaitQueue;
use crate::contract::key_watch::KeyWatch;
use crate::rt::{Instant, Mutex};
use crate::value::Key;

/// The queues of a backend in this process. Clones share them.
pub(crate) struct WaitQueues<W = KeyWatch>(Arc<Mutex<Registry<W>>>);

/// The queue of one key.
pub(super) struct KeyQueue<W = KeyWatch> {
    key: Key,
    state: Mutex<State<W>>,
}

struct Registry<W> {
    queues: HashMap<Key, Arc<KeyQueue<W>>>,
    /// Queues that were unused when they were listed here, oldest first. They are forgotten in this order.
    idle: VecDeque<Arc<KeyQueue<W>>>,
    /// The number of unused queues.
    unused: usize,
    /// The queue that was forgotten last: its memory serves the next one.
    spare: Option<Arc<KeyQueue<W>>>,
    is_single_process: bool,
}

struct State<W> {
    queue: WaitQueue<W>,
    /// When the queue is forgotten. `None` while it has a waiter or a holder.
    forget_at: Option<Instant>,
    /// Whether the queue is in `idle` of the registry.
    is_listed: bool,
}

impl<W> WaitQueues<W> {
    /// If these locks are those of a single process, because no other process can reach them, no head leaves a key free.
    pub(crate) fn new(is_single_process: bool) -> Self {
        let (queues, idle, spare) = (HashMap::new(), VecDeque::new(), None);
        Self(Arc::new(Mutex::new(Registry { queues, idle, unused: 0, spare, is_single_process })))
    }

    /// Other queues for the same store.
    pub(super) fn separate<V>(&self) -> WaitQueues<V> {
        WaitQueues::new(self.0.lock().is_single_process)
    }

    /// Runs `work` on what this process knows of its rivals for a key.
    pub(super) fn share<T>(&self, key: &Key, work: impl FnOnce(&mut Fairness, Instant) -> T) -> T {
        let now = Instant::now();
        let (queue, result) = self.enter(key, now, |queue| work(&mut queue.fairness, now));
        self.with(&queue, |_| ());
        result
    }

    /// Runs `work` on the queue of a key, which is made if there is none.
    pub(super) fn enter<T>(
        &self,
        key: &Key,
        now: Instant,
        work: impl FnOnce(&mut WaitQueue<W>) -> T,
    ) -> (Arc<KeyQueue<W>>, T) {
        let mut registry = self.0.lock();
        let forgotten = registry.forget(now);
        let queue = match registry.queues.get(key) {
            Some(queue) => Arc::clone(queue),
            None => {
                let queue = registry.new_queue(key);
                registry.queues.insert(key.clone(), Arc::clone(&queue));
                queue
            }
        };
        let mut state = queue.state.lock();
        if state.forget_at.take().is_some() {
            registry.unused -= 1;
        }
        let result = work(&mut state.queue);
        drop(state);
        drop(registry);
        drop(forgotten);
        (queue, result)
    }

    /// Runs `work` on a queue, and retires the queue if it has no waiter and no holder afterwards.
    pub(super) fn with<T>(
        &self,
        queue: &Arc<KeyQueue<W>>,
        work: impl FnOnce(&mut WaitQueue<W>) -> T,
    ) -> T {
        let mut state = queue.state.lock();
        let result = work(&mut state.queue);
        let is_empty = state.queue.is_empty();
        drop(state);
        if is_empty {
            self.retire(queue);
        }
        result
    }

    /// Forgets an unused queue, at once or when its knowledge about rivals is out of date.
    fn retire(&self, queue: &Arc<KeyQueue<W>>) {
        let mut registry = self.0.lock();
        let mut state = queue.state.lock();
        let is_used = !state.queue.is_empty();
        if is_used || state.forget_at.is_some() || !registry.has(queue) {
            return;
        }
        state.forget_at = state.queue.fairness.forget_at();
        if state.forget_at.is_none() {
            registry.spare = registry.queues.remove(&queue.key);
            return;
        }
        registry.unused += 1;
        if !std::mem::replace(&mut state.is_listed, true) {
            registry.idle.push_back(Arc::clone(queue));
        }
    }

    /// Whether a waiter stands in the queue of a key.
    pub(crate) fn has_waiters(&self, key: &Key, now: Instant) -> bool {
        let queue = self.0.lock().queues.get(key).cloned();
        queue.is_some_and(|queue| {
            self.with(&queue, |queue| {
                queue.skip_overdue(now);
                queue.has_waiters()
            })
        })
    }

    /// The number of keys that callers of this process wait for or hold.
    pub(crate) fn len(&self) -> usize {
        let registry = self.0.lock();
        registry.queues.len() - registry.unused
    }
}

impl<W> KeyQueue<W> {
    fn new(key: &Key, is_single_process: bool) -> Self {
        let queue = WaitQueue::new(is_single_process);
        Self {
            key: key.clone(),
            state: Mutex::new(State { queue, forget_at: None, is_listed: false }),
        }
    }
}

/// How many idle queues each newcomer checks. Each newcomer makes one queue at most, so idle queues go faster than they
/// come.
const AT_ONCE: usize = 2;

impl<W> Registry<W> {
    /// Removes idle queues whose time is over. The caller drops them after it has unlocked the registry.
    fn forget(&mut self, now: Instant) -> [Option<Arc<KeyQueue<W>>>; AT_ONCE] {
        let mut forgotten = [const { None }; AT_ONCE];
        for slot in &mut forgotten {
            let Some(first) = self.idle.front() else { break };
            let mut state = first.state.lock();
            match state.forget_at {
                Some(at) if now < at => {
                    // A queue in regular use must not keep the queues behind it from being forgotten.
                    drop(state);
                    self.idle.rotate_left(1);
                    continue;
                }
                Some(_) => {
                    self.unused -= 1;
                    self.spare = self.queues.remove(&first.key);
                }
                None => {}
            }
            state.is_listed = false;
            drop(state);
            *slot = self.idle.pop_front();
        }
        forgotten
    }

    fn new_queue(&mut self, key: &Key) -> Arc<KeyQueue<W>> {
        let queue = KeyQueue::new(key, self.is_single_process);
        if let Some(mut spare) = self.spare.take()
            && let Some(place) = Arc::get_mut(&mut spare)
        {
            *place = queue;
            return spare;
        }
        Arc::new(queue)
    }

    /// Whether this is still the queue of its key, and was not forgotten.
    fn has(&self, queue: &Arc<KeyQueue<W>>) -> bool {
        self.queues.get(&queue.key).is_some_and(|known| Arc::ptr_eq(known, queue))
    }
}

impl<W> Clone for WaitQueues<W> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<W> fmt::Debug for WaitQueues<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitQueues").field("keys", &self.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::rt::model;

    fn key(name: &str) -> Key {
        Key::new(name).expect("a key")
    }

    /// Lets a guard have the key for a moment.
    fn used(queues: &WaitQueues, name: &str, now: Instant) {
        let (queue, number) = queues.enter(&key(name), now, |queue| {
            let number = queue.next_number();
            queue.on_granted(number, now, now);
            number
        });
        queues.with(&queue, |queue| queue.on_released(number, now));
    }

    #[test]
    fn unused_queues_are_forgotten_by_newcomers() {
        model::explore_without_time(1, || async {
            let (queues, start) = (WaitQueues::new(false), Instant::now());
            for number in 0..100 {
                used(&queues, &number.to_string(), start);
            }
            assert_eq!((queues.len(), queues.0.lock().queues.len()), (0, 100));
            let later = start + Duration::from_secs(1);
            for number in 0..60 {
                used(&queues, &format!("later {number}"), later);
            }
            assert_eq!((queues.len(), queues.0.lock().queues.len()), (0, 60));
            used(&queues, "later 1", later);
            assert_eq!(queues.0.lock().idle.len(), 60, "each is listed once");
        });
    }

    #[test]
    fn a_key_in_regular_use_keeps_no_other_queue_from_being_forgotten() {
        model::explore_without_time(1, || async {
            let (queues, start) = (WaitQueues::new(false), Instant::now());
            for number in 0..1_000_u32 {
                let now = start + Duration::from_millis(1) * number;
                used(&queues, "in regular use", now);
                used(&queues, &number.to_string(), now);
            }
            let kept = queues.0.lock().queues.len();
            assert!(kept < 100, "{kept} queues");
        });
    }

    #[test]
    fn a_single_process_keeps_no_unused_queue() {
        model::explore_without_time(1, || async {
            let queues = WaitQueues::new(true);
            used(&queues, "a", Instant::now());
            assert!(queues.0.lock().queues.is_empty());
        });
    }
}
