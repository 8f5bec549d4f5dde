//! What the tasks of one process share: the slot for its readers, and its waiting writers.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, ThreadId};
use std::time::Duration;

use syncguard_core::{Held, LockBackend, LockError, LockGuard};
use tokio::sync::Notify;
use tokio::task;
use tokio::time::Instant;

/// For how long readers join those of their process. Then the next one passes the gate, so that a writer of another
/// process gets its turn.
const TURN: Duration = Duration::from_millis(500);

/// The slot of a process for all its readers. The last reader gives it back.
pub(super) struct Slot<B: LockBackend> {
    pub(super) guard: LockGuard<B>,
    pub(super) number: u32,
    /// The lock, with the fence of the gate under which the process began to read.
    pub(super) held: Held<B::Fence>,
}

/// The part of one reader in the slot of its process.
pub(super) struct Share<B: LockBackend> {
    pub(super) slot: Arc<Slot<B>>,
    pub(super) reads: Reads<B>,
}

/// The state of one process.
pub(super) struct Process<B: LockBackend> {
    state: Mutex<State<B>>,
    /// Told when the process begins to read.
    pub(super) opened: Notify,
    /// Each writer that waits has a clone, which keeps readers from joining.
    pub(super) writers: Arc<()>,
}

struct State<B: LockBackend> {
    slot: Weak<Slot<B>>,
    turn_ends: Instant,
    /// The number of reads of each task.
    reads: HashMap<Caller, usize>,
}

/// A task, or a thread that runs a future without a task.
type Caller = (Option<task::Id>, Option<ThreadId>);

fn caller() -> Caller {
    let task = task::try_id();
    (task, task.is_none().then(|| thread::current().id()))
}

impl<B: LockBackend> Process<B> {
    pub(super) fn new() -> Self {
        let (slot, turn_ends, reads) = (Weak::new(), Instant::now(), HashMap::new());
        let state = Mutex::new(State { slot, turn_ends, reads });
        Self { state, opened: Notify::new(), writers: Arc::default() }
    }

    /// Joins the readers of this process while their turn lasts and no writer of this process waits.
    pub(super) fn join(self: &Arc<Self>) -> Option<Share<B>> {
        let mut state = self.state();
        if Arc::strong_count(&self.writers) > 1 || state.turn_ends <= Instant::now() {
            return None;
        }
        let slot = state.slot.upgrade().filter(|slot| !slot.guard.is_lost())?;
        Some(self.reader(&mut state, slot))
    }

    /// Joins the readers of this process, and begins their next turn. The caller has the gate: no writer is between.
    pub(super) fn renew(self: &Arc<Self>) -> Option<Share<B>> {
        let slot = self.state().slot.upgrade().filter(|slot| !slot.guard.is_lost())?;
        Some(self.begin(slot))
    }

    /// The process has a slot. Its waiting readers join.
    pub(super) fn open(self: &Arc<Self>, slot: Slot<B>) -> Share<B> {
        let slot = Arc::new(slot);
        self.begin(slot)
    }

    fn begin(self: &Arc<Self>, slot: Arc<Slot<B>>) -> Share<B> {
        let mut state = self.state();
        state.slot = Arc::downgrade(&slot);
        state.turn_ends = Instant::now() + TURN;
        let reader = self.reader(&mut state, slot);
        drop(state);
        self.opened.notify_waiters();
        reader
    }

    fn reader(self: &Arc<Self>, state: &mut State<B>, slot: Arc<Slot<B>>) -> Share<B> {
        let reads = Reads { process: Arc::clone(self), caller: caller() };
        *state.reads.entry(reads.caller).or_default() += 1;
        Share { slot, reads }
    }

    /// Refuses a writer whose task reads, because it would wait for itself.
    pub(super) fn refuse_upgrade(&self) -> Result<(), LockError> {
        if self.state().reads.contains_key(&caller()) {
            return Err(LockError::invalid_argument(
                "this task reads under the same lock, and a writer waits for all readers; release the read first, and read \
                 again what the write depends on; if another branch of the task reads, or another task has the guard, write \
                 in a task of its own",
            ));
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State<B>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts one read of a task.
pub(super) struct Reads<B: LockBackend> {
    process: Arc<Process<B>>,
    caller: Caller,
}

impl<B: LockBackend> Drop for Reads<B> {
    fn drop(&mut self) {
        if let Entry::Occupied(mut reads) = self.process.state().reads.entry(self.caller) {
            *reads.get_mut() -= 1;
            if *reads.get() == 0 {
                reads.remove();
            }
        }
    }
}
