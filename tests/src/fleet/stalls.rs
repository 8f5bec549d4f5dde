//! Times in which a process did not get to run, because the machine was busy or the process was stopped.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tokio::time::sleep;

/// Measures stalls from its creation until it is dropped.
#[derive(Debug)]
pub(crate) struct Stalls {
    state: Arc<Mutex<State>>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct State {
    /// When the process was last seen to run.
    ran: Instant,
    longest: Duration,
}

impl State {
    fn note(&mut self) {
        self.longest = self.longest.max(self.ran.elapsed());
        self.ran = Instant::now();
    }
}

impl Stalls {
    const INTERVAL: Duration = Duration::from_millis(5);

    pub(crate) fn watch() -> Self {
        let state = State { ran: Instant::now(), longest: Duration::ZERO };
        let state = Arc::new(Mutex::new(state));
        let noted = Arc::clone(&state);
        let task = tokio::spawn(async move {
            loop {
                sleep(Self::INTERVAL).await;
                noted.lock().unwrap_or_else(PoisonError::into_inner).note();
            }
        });
        Self { state, task }
    }

    /// The longest time until now in which the process did not run.
    pub(crate) fn longest(&self) -> Duration {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.note();
        state.longest.saturating_sub(Self::INTERVAL)
    }
}

impl Drop for Stalls {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_blocked_thread_is_a_stall() {
        let stalls = Stalls::watch();
        sleep(Duration::from_millis(20)).await;
        std::thread::sleep(Duration::from_millis(200));
        assert!(stalls.longest() >= Duration::from_millis(190));
    }
}
