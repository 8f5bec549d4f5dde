//! Times in which a process did not get to run, because the machine was busy or the process was stopped.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tokio::time::sleep;

/// Measures stalls from its creation until it is dropped.
pub(crate) struct Stalls {
    state: Arc<Mutex<State>>,
    task: JoinHandle<()>,
}

struct State {
    /// When the process was last seen to run.
    ran: Instant,
    longest: Duration,
}

const INTERVAL: Duration = Duration::from_millis(5);

impl Stalls {
    pub(crate) fn watch() -> Self {
        let state = State { ran: Instant::now(), longest: Duration::ZERO };
        let state = Arc::new(Mutex::new(state));
        let noted = Arc::clone(&state);
        let task = tokio::spawn(async move {
            loop {
                sleep(INTERVAL).await;
                note(&noted);
            }
        });
        Self { state, task }
    }

    /// The longest time until now in which the process did not run.
    pub(crate) fn longest(&self) -> Duration {
        note(&self.state).saturating_sub(INTERVAL)
    }
}

fn note(state: &Mutex<State>) -> Duration {
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    state.longest = state.longest.max(state.ran.elapsed());
    state.ran = Instant::now();
    state.longest
}

impl Drop for Stalls {
    fn drop(&mut self) {
        self.task.abort();
    }
}
