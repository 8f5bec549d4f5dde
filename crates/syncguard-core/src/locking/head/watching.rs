//! How the head watches for signals of the store.

use std::pin::pin;
use std::time::Duration;

use super::{Answer, Head, Holder};
use crate::backend::LockBackend;
use crate::contract::key_watch::KeyWatch;
use crate::contract::request::WatchRequest;
use crate::locking::attempt::{Attempt, Tried};
use crate::locking::cancellable::unless_cancelled;
use crate::rt::{self, Instant};
use crate::value::{LockError, LockId};

impl<B: LockBackend> Head<'_, B> {
    pub(super) fn wants_watch(&self) -> bool {
        self.has_signals && self.ticket.watch.is_none()
    }

    /// Opens a watch. Returns whether the lock may be free.
    pub(super) async fn watch(&mut self) -> Result<bool, LockError> {
        let open = open_watch(self.attempt, self.watch_limit());
        let watch = unless_cancelled(self.token(), open).await?;
        Ok(self.set_watch(watch))
    }

    /// One attempt, and a watch beside it, because a rival is likely to win. For a process that is far from the store, a
    /// watch that begins after the answer comes too late. Also returns whether the lock may be free by now.
    pub(super) async fn try_and_watch(
        &mut self,
        lock_id: LockId,
        sent: Instant,
    ) -> Result<(Answer<B>, bool), LockError> {
        let (attempt, limit, token) = (self.attempt, self.watch_limit(), self.token());
        let mut open = pin!(open_watch(attempt, limit));
        let mut opened = None;
        let tried = {
            let mut once =
                pin!(rt::until(self.deadline, attempt.once(lock_id, sent, Some(&mut self.ticket))));
            loop {
                tokio::select! {
                    biased;
                    tried = &mut once => break tried,
                    watch = &mut open, if opened.is_none() => opened = Some(watch),
                }
            }
        };
        self.on_answer(tried.as_ref(), sent);
        if !matches!(tried, Some(Ok(Tried::Busy(_)))) {
            return Ok((tried, false));
        }
        let watch = match opened {
            Some(watch) => watch,
            None => unless_cancelled(token, open).await?,
        };
        let may_be_free = self.set_watch(watch);
        Ok((tried, may_be_free))
    }

    /// Keeps a watch that was just opened, or knows that the store has no signals at the moment. Returns whether the
    /// lock may be free.
    fn set_watch(&mut self, watch: Option<KeyWatch>) -> bool {
        self.has_signals = watch.is_some();
        self.ticket.watch = watch;
        let Some(watch) = &self.ticket.watch else { return false };
        if watch.is_locked() {
            self.holder = Holder::Rival { polls: Some(watch.is_polled()) };
        }
        // A watch that is over gives its last signal to the sleeping head.
        !watch.is_locked() && !watch.is_over()
    }

    /// When to give up opening a watch: a connection that is being opened must not delay polls.
    fn watch_limit(&self) -> Instant {
        const SHORTEST: Duration = Duration::from_millis(200);
        let retry_delay = self.attempt.policy().acquisition.retry_delay;
        self.deadline.min(rt::after(SHORTEST.max(retry_delay)))
    }
}

/// Opens a watch, and gives up at `limit`.
async fn open_watch<B: LockBackend>(attempt: &Attempt<'_, B>, limit: Instant) -> Option<KeyWatch> {
    let watch = attempt.backend().watch(WatchRequest::new(attempt.key().clone()));
    rt::until(limit, watch).await.flatten()
}
