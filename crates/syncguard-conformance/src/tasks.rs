//! Concurrent tasks.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use syncguard_core::Fence;
use tokio::task::JoinSet;

use crate::outcome::Unexpected;

/// Runs all futures at once as tasks, and collects the answers in no particular order. The first failure ends the
/// other tasks.
pub(crate) async fn all<T, F>(futures: impl IntoIterator<Item = F>) -> Result<Vec<T>, Unexpected>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Unexpected>> + Send + 'static,
{
    let mut tasks = futures.into_iter().collect::<JoinSet<_>>();
    let mut answers = Vec::with_capacity(tasks.len());
    while let Some(answer) = tasks.join_next().await {
        answers.push(answer.map_err(|error| Unexpected::new(error.to_string()))??);
    }
    Ok(answers)
}

/// Lets other tasks run. Unlike [`Harness::pass`](crate::Harness::pass), it does not advance the store's time.
pub(crate) async fn pause(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

/// Polls a future each time it wakes its task, until it is done or was polled this many times.
pub(crate) async fn poll_times<F: Future>(
    mut future: Pin<&mut F>,
    polls: usize,
) -> Option<F::Output> {
    let mut left = polls;
    poll_fn(move |context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// The protected resource. It notices a second holder and a fence that goes backwards.
#[derive(Debug, Default)]
pub(crate) struct Register(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    occupied: bool,
    entries: usize,
    last: Option<Fence>,
}

impl Register {
    /// Work under a lock, with pauses in which a second holder would show.
    pub(crate) async fn work(&self, fence: Option<Fence>) -> Result<(), Unexpected> {
        self.enter(fence)?;
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
        self.with(|state| state.occupied = false);
        Ok(())
    }

    pub(crate) fn entries(&self) -> usize {
        self.with(|state| state.entries)
    }

    fn enter(&self, fence: Option<Fence>) -> Result<(), Unexpected> {
        self.with(|state| {
            if state.occupied {
                return Err(Unexpected::new("two held the lock at the same time"));
            }
            if let (Some(last), Some(fence)) = (state.last, fence)
                && fence <= last
            {
                return Err(Unexpected::new(format!("fence {fence} was granted after {last}")));
            }
            state.occupied = true;
            state.entries += 1;
            state.last = fence;
            Ok(())
        })
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
