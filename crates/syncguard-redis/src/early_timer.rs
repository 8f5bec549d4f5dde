//! A timer that makes the timers of calls cheap.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;

/// Keeps one timer due before all timeouts of calls, for as long as calls are made.
///
/// tokio interrupts its sleeping worker for every timer that is due before all others, so that the
/// worker sleeps no longer than that. A timeout in an otherwise idle program is such a timer: 20 µs
/// of processor time a call, a third of what it costs. With a nearer one already there, none is.
#[derive(Debug)]
pub(crate) struct EarlyTimer {
    shared: Arc<Shared>,
    period: Duration,
}

#[derive(Debug, Default)]
struct Shared {
    calls: AtomicU64,
    runs: AtomicBool,
}

impl EarlyTimer {
    /// For calls with this timeout.
    pub(crate) fn before(timeout: Duration) -> Self {
        Self { shared: Arc::default(), period: timeout / 2 }
    }

    /// A call is made. Without a tokio runtime there is no timer.
    pub(crate) fn note_call(&self) {
        let shared = &self.shared;
        shared.calls.fetch_add(1, Ordering::Relaxed);
        if !shared.runs.load(Ordering::Relaxed)
            && let Ok(runtime) = Handle::try_current()
            && !shared.runs.swap(true, Ordering::Relaxed)
        {
            runtime.spawn(keep(Running(Arc::clone(shared)), self.period));
        }
    }
}

/// Until a period without a call.
async fn keep(running: Running, period: Duration) {
    let calls = &running.0.calls;
    let mut seen = calls.load(Ordering::Relaxed);
    loop {
        tokio::time::sleep(period).await;
        let before = std::mem::replace(&mut seen, calls.load(Ordering::Relaxed));
        if before == seen {
            return;
        }
    }
}

/// Ends with its task, also where the runtime ends first, so that the next call starts another.
struct Running(Arc<Shared>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.runs.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(1);

    fn tasks() -> usize {
        Handle::current().metrics().num_alive_tasks()
    }

    #[tokio::test(start_paused = true)]
    async fn it_runs_while_calls_are_made_and_not_longer() {
        let timer = EarlyTimer::before(TIMEOUT);
        assert_eq!(tasks(), 0);
        for _ in 0..10 {
            timer.note_call();
            assert_eq!(tasks(), 1);
            tokio::time::sleep(TIMEOUT / 4).await;
        }
        tokio::time::sleep(TIMEOUT * 2).await;
        assert_eq!(tasks(), 0);
        timer.note_call();
        assert_eq!(tasks(), 1);
    }

    #[test]
    fn it_runs_again_after_its_runtime_ended() {
        let timer = EarlyTimer::before(TIMEOUT);
        for _ in 0..2 {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
            runtime.unwrap().block_on(async {
                timer.note_call();
                assert_eq!(tasks(), 1);
            });
        }
    }
}
