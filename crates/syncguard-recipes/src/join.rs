//! Several futures at once.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

enum Slot<F: Future> {
    Running(Pin<Box<F>>),
    Done(F::Output),
}

/// Drives all of them, and gives their outputs in the same order.
pub(crate) async fn join_all<F: Future>(
    futures: impl IntoIterator<Item = F>,
) -> impl Iterator<Item = F::Output> {
    let mut slots: Vec<_> = futures.into_iter().map(|it| Slot::Running(Box::pin(it))).collect();
    poll_fn(|context| {
        let mut is_running = false;
        for slot in &mut slots {
            if let Slot::Running(future) = slot {
                match future.as_mut().poll(context) {
                    Poll::Ready(output) => *slot = Slot::Done(output),
                    Poll::Pending => is_running = true,
                }
            }
        }
        if is_running { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    slots.into_iter().filter_map(|slot| match slot {
        Slot::Done(output) => Some(output),
        Slot::Running(_) => None,
    })
}

/// Drives all of them until the first one is done.
pub(crate) async fn first_of<F: Future>(futures: impl IntoIterator<Item = F>) -> F::Output {
    let mut futures: Vec<_> = futures.into_iter().map(Box::pin).collect();
    poll_fn(|context| {
        for future in &mut futures {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready(output);
            }
        }
        Poll::Pending
    })
    .await
}
