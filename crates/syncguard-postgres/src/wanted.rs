//! Whether anybody still wants an operation that has not been sent yet.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use syncguard_core::{CancellationToken, LockError, cancel};

/// What an operation asks before it sends anything: once its caller has gone, it goes on only if it
/// must.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    token: Option<CancellationToken>,
    /// Set when the caller has dropped its future.
    dropped: Option<Arc<AtomicBool>>,
}

impl Wanted {
    /// Wanted until the token fires, and also by those who have stopped waiting: a release that
    /// nobody waits for is still owed to the next holder.
    pub(crate) fn until(token: Option<&CancellationToken>) -> Self {
        Self { token: token.cloned(), dropped: None }
    }

    /// Runs an operation that is wanted until the token fires or this future is dropped.
    pub(crate) async fn while_awaited<T, F>(
        token: Option<&CancellationToken>,
        run: impl FnOnce(Self) -> F,
    ) -> T
    where
        F: Future<Output = T>,
    {
        let dropped = Arc::new(AtomicBool::new(false));
        let running =
            pin!(run(Self { token: token.cloned(), dropped: Some(Arc::clone(&dropped)) }));
        // Dropped before `running`, which then goes on in the background.
        let _mark = MarkDropped(dropped);
        running.await
    }

    /// `Aborted` if nobody wants it any more.
    pub(crate) fn check(&self) -> Result<(), LockError> {
        if self.dropped.as_ref().is_some_and(|dropped| dropped.load(Ordering::Acquire)) {
            return Err(LockError::aborted());
        }
        cancel::check(self.token.as_ref())
    }
}

struct MarkDropped(Arc<AtomicBool>);

impl Drop for MarkDropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}
