//! Concurrent tasks.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use syncguard_core::Fence;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::client::Client;
use crate::outcome::{Checked, Unexpected};

/// Runs all futures at once as tasks, and collects the answers in no particular order. The first failure ends the
/// other tasks.
pub(crate) async fn all<T, F>(futures: impl IntoIterator<Item = F>) -> Checked<Vec<T>>
where
    T: Send + 'static,
    F: Future<Output = Checked<T>> + Send + 'static,
{
    let mut tasks = futures.into_iter().collect::<JoinSet<_>>();
    let mut answers = Vec::with_capacity(tasks.len());
    while let Some(answer) = tasks.join_next().await {
        answers.push(answer.map_err(|error| Unexpected::new(error.to_string()))??);
    }
    Ok(answers)
}

/// Starts this many tasks at the same moment, each with one of the clients in turn, and collects the answers.
pub(crate) async fn at_once<T, F>(
    clients: &[Client],
    count: usize,
    task: impl Fn(usize, Client) -> F,
) -> Checked<Vec<T>>
where
    T: Send + 'static,
    F: Future<Output = Checked<T>> + Send + 'static,
{
    let barrier = Arc::new(Barrier::new(count));
    all((0..count).map(|index| {
        let work = task(index, clients[index % clients.len()].clone());
        let barrier = Arc::clone(&barrier);
        async move {
            barrier.wait().await;
            work.await
        }
    }))
    .await
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
    pub(crate) async fn work(&self, fence: Option<Fence>) -> Checked<()> {
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

    fn enter(&self, fence: Option<Fence>) -> Checked<()> {
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
