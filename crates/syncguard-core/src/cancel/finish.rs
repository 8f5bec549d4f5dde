//! A future that continues on the runtime if it is dropped in mid-flight.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use crate::rt::Spawner;

/// The follow-up to an operation whose caller has gone.
pub(crate) trait OnAbandon<T>: Send + 'static {
    /// The caller has gone; the operation goes on.
    fn abandoned(&mut self) {}

    /// The operation has ended without its caller. The output is `None` if the operation was cut off, because
    /// its runtime has ended or it panicked.
    fn ended(self, output: Option<T>);
}

/// Nothing is to be done for the operation.
pub(crate) struct NoAction;

impl<T> OnAbandon<T> for NoAction {
    fn ended(self, _: Option<T>) {}
}

/// Runs an operation in place. Its output comes with the [`OnAbandon`], which was not needed.
pub(crate) struct Finish<O, A>
where
    O: Future<Output: Send> + Send + 'static,
    A: OnAbandon<O::Output>,
{
    /// `None` after the end.
    pending: Option<(Pin<Box<O>>, A)>,
    /// Set by the first poll; before that, nothing was sent.
    spawner: Option<Spawner>,
    /// Whether the operation is being polled. A drop in that state means that it has panicked.
    polling: bool,
}

impl<O, A> Finish<O, A>
where
    O: Future<Output: Send> + Send + 'static,
    A: OnAbandon<O::Output>,
{
    pub(crate) fn new(operation: O, on_abandon: A) -> Self {
        Self { pending: Some((Box::pin(operation), on_abandon)), spawner: None, polling: false }
    }
}

/// The operation is pinned in its box, and no other field is pinned.
impl<O, A> Unpin for Finish<O, A>
where
    O: Future<Output: Send> + Send + 'static,
    A: OnAbandon<O::Output>,
{
}

impl<O, A> Future for Finish<O, A>
where
    O: Future<Output: Send> + Send + 'static,
    A: OnAbandon<O::Output>,
{
    type Output = (O::Output, A);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        this.spawner.get_or_insert_with(Spawner::current);
        let Some((operation, _)) = &mut this.pending else {
            return Poll::Pending;
        };
        this.polling = true;
        let polled = operation.as_mut().poll(context);
        this.polling = false;
        let output = ready!(polled);
        match this.pending.take() {
            Some((_, on_abandon)) => Poll::Ready((output, on_abandon)),
            None => Poll::Pending,
        }
    }
}

impl<O, A> Drop for Finish<O, A>
where
    O: Future<Output: Send> + Send + 'static,
    A: OnAbandon<O::Output>,
{
    fn drop(&mut self) {
        let (Some(spawner), Some((operation, mut on_abandon))) =
            (self.spawner.take(), self.pending.take())
        else {
            return;
        };
        on_abandon.abandoned();
        let guard = EndOnDrop { on_abandon: Some(on_abandon), output: None };
        if self.polling {
            return;
        }
        // Without a live runtime this future is dropped, and the drop of `guard` reports the end.
        spawner.spawn(async move {
            let mut guard = guard;
            guard.output = Some(operation.await);
        });
    }
}

/// Reports the end of an abandoned operation when it is dropped.
struct EndOnDrop<T, A: OnAbandon<T>> {
    on_abandon: Option<A>,
    output: Option<T>,
}

impl<T, A: OnAbandon<T>> Drop for EndOnDrop<T, A> {
    fn drop(&mut self) {
        if let Some(on_abandon) = self.on_abandon.take() {
            on_abandon.ended(self.output.take());
        }
    }
}
