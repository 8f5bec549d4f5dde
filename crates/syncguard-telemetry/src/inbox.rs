//! Where records wait for the courier.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::callbacks::Callbacks;
use crate::record::Record;

/// What waits, without those it is for: all that a sleeping courier holds.
#[derive(Default)]
pub(crate) struct Inbox {
    state: Mutex<State>,
    /// The courier is called, or not needed any more.
    pub(crate) call: Condvar,
    /// Something was delivered, or a courier is gone.
    pub(crate) progress: Notify,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) waiting: VecDeque<Record>,
    /// How many records were ever taken in, and how many of them were delivered.
    pub(crate) taken: u64,
    pub(crate) delivered: u64,
    pub(crate) courier: Duty,
    /// Nobody can put anything in any more.
    pub(crate) is_closed: bool,
}

/// The courier of a queue: there is one at most, so events keep their order.
#[derive(Default)]
pub(crate) enum Duty {
    /// There is no thread.
    #[default]
    Absent,
    /// It delivers.
    Working,
    /// It sleeps, and holds nothing of the queue but its inbox: callbacks that nobody needs any more
    /// are dropped at once.
    Asleep,
    /// It is to wake up, for this.
    Called(Errand),
}

/// To deliver everything that is waiting.
pub(crate) struct Errand {
    pub(crate) callbacks: Arc<Callbacks>,
    /// The runtime of the operation that called, for callbacks that want one.
    pub(crate) runtime: Option<Handle>,
}

impl Inbox {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing under this lock can leave the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps until there is something to deliver, for this long at most; `None` if the courier is to
    /// go.
    pub(crate) fn next_errand(&self, idle: Duration) -> Option<Errand> {
        let is_asleep = |state: &mut State| matches!(state.courier, Duty::Asleep);
        let (mut state, _) = self
            .call
            .wait_timeout_while(self.lock(), idle, is_asleep)
            .unwrap_or_else(PoisonError::into_inner);
        match std::mem::take(&mut state.courier) {
            Duty::Called(errand) => {
                state.courier = Duty::Working;
                Some(errand)
            }
            _ => None,
        }
    }

    /// A courier that sleeps ends now; one that delivers ends when it is done.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        if matches!(state.courier, Duty::Asleep) {
            state.courier = Duty::Absent;
            self.call.notify_one();
        }
    }
}
