//! A future that, dropped in mid-flight, is continued by the runtime.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use crate::rt::Spawner;

/// Who gets what nobody waits for any more.
pub(crate) trait Heir<T>: Send + 'static {
    /// The caller has gone; the operation goes on.
    fn deserted(&mut self) {}

    /// The operation has ended; `None` if it never will, because its runtime has ended or it panicked.
    fn inherit(self, output: Option<T>);
}

/// Runs an operation in place. Its output comes with the heir, who was not needed.
pub(crate) struct Finish<O, T, H>
where
    O: Future<Output = T> + Send + 'static,
    T: Send + 'static,
    H: Heir<T>,
{
    /// `None` once done.
    pending: Option<(Pin<Box<O>>, H)>,
    /// Set by the first poll: before it nothing has been sent.
    spawner: Option<Spawner>,
    /// Whether it is being polled now; dropped then, it has panicked.
    polling: bool,
}

impl<O, T, H> Finish<O, T, H>
where
    O: Future<Output = T> + Send + 'static,
    T: Send + 'static,
    H: Heir<T>,
{
    pub(crate) fn new(operation: O, heir: H) -> Self {
        Self { pending: Some((Box::pin(operation), heir)), spawner: None, polling: false }
    }
}

/// The operation is pinned in its box; nothing else is ever pinned.
impl<O, T, H> Unpin for Finish<O, T, H>
where
    O: Future<Output = T> + Send + 'static,
    T: Send + 'static,
    H: Heir<T>,
{
}

impl<O, T, H> Future for Finish<O, T, H>
where
    O: Future<Output = T> + Send + 'static,
    T: Send + 'static,
    H: Heir<T>,
{
    type Output = (T, H);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<(T, H)> {
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
            Some((_, heir)) => Poll::Ready((output, heir)),
            None => Poll::Pending,
        }
    }
}

impl<O, T, H> Drop for Finish<O, T, H>
where
    O: Future<Output = T> + Send + 'static,
    T: Send + 'static,
    H: Heir<T>,
{
    fn drop(&mut self) {
        let (Some(spawner), Some((operation, mut heir))) =
            (self.spawner.take(), self.pending.take())
        else {
            return;
        };
        heir.deserted();
        let heir = Waiting { heir: Some(heir), output: None };
        if self.polling {
            return;
        }
        // Where there is no runtime, or none any more, this is dropped, and the heir is told.
        spawner.spawn(async move {
            let mut heir = heir;
            heir.output = Some(operation.await);
        });
    }
}

/// Tells the heir when it is dropped.
struct Waiting<T, H: Heir<T>> {
    heir: Option<H>,
    output: Option<T>,
}

impl<T, H: Heir<T>> Drop for Waiting<T, H> {
    fn drop(&mut self) {
        if let Some(heir) = self.heir.take() {
            heir.inherit(self.output.take());
        }
    }
}
