//! Futures that are dropped early.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

/// Polls a future each time it wakes its task, until it is done or was polled this many times; then drops it.
pub async fn poll_times<F: Future>(future: F, polls: usize) -> Option<F::Output> {
    poll_times_and_linger(future, polls, Duration::ZERO).await
}

/// Like [`poll_times`], but drops the future only after this time: an answer that was not read may have arrived by
/// then.
pub async fn poll_times_and_linger<F: Future>(
    future: F,
    polls: usize,
    linger: Duration,
) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = polls;
    let output = poll_fn(|context| {
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
    .await;
    if !linger.is_zero() {
        tokio::time::sleep(linger).await;
    }
    output
}
