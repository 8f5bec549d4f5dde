//! How the head watches for signals of the store.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use super::{Answer, Head, HeldBy, Woken};
use crate::backend::LockBackend;
use crate::contract::key_watch::KeyWatch;
use crate::contract::request::WatchRequest;
use crate::locking::acquisition::AcquisitionOptions;
use crate::locking::call::{ASIDE, Tried};
use crate::locking::cancellable::unless_cancelled;
use crate::rt::{self, Instant};
use crate::value::{Key, LockError, LockId};

impl<'a, B: LockBackend> Head<'a, B> {
    pub(super) fn wants_watch(&mut self) -> bool {
        self.ticket.watch.take_if(|watch| watch.is_over());
        self.has_signals && self.ticket.watch.is_none()
    }

    /// Opens a watch. Returns whether the lock may be free.
    pub(super) async fn watch(&mut self) -> Result<bool, LockError> {
        let watch = unless_cancelled(self.token(), self.open_watch()).await?;
        Ok(self.set_watch(watch))
    }

    /// One attempt, and a watch beside it, because a rival is likely to win. For a process that is far from the store, a
    /// watch that begins after the answer comes too late. Also returns whether the lock may be free by now.
    pub(super) async fn try_and_watch(
        &mut self,
        lock_id: LockId,
        sent: Instant,
    ) -> Result<(Answer<B>, bool), LockError> {
        let (call, token) = (self.call, self.token());
        let was_busy = self.woken == Woken::Poll;
        let mut open = pin!(self.open_watch());
        let mut opened = None;
        let tried = {
            let mut once = pin!(rt::until(
                self.deadline,
                call.once(lock_id, sent, Some(&mut self.ticket), was_busy)
            ));
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
        if watch.is_locked {
            self.holder = HeldBy::Rival { polls: Some(watch.is_polled) };
        }
        // A watch that is over gives its last signal to the sleeping head.
        !watch.is_locked && !watch.is_over()
    }

    fn open_watch(&self) -> impl Future<Output = Option<KeyWatch>> + use<'a, B> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        let call = self.call;
        open_watch(call.backend, call.key, &call.policy.acquisition, left)
    }
}

/// For authors of recipes: opens a [watch](LockBackend::watch), and gives up soon, because a connection that is being
/// opened must not delay polls: after 250 ms, or the first pause between polls if that is longer, or `left`.
///
/// # Cancel safety
///
/// Safe: the watch ends.
pub async fn open_watch<B: LockBackend>(
    backend: &B,
    key: &Key,
    options: &AcquisitionOptions,
    left: Duration,
) -> Option<KeyWatch> {
    let limit = ASIDE.max(options.retry_delay).min(left);
    rt::within(limit, backend.watch(WatchRequest::new(key.clone()))).await.flatten()
}
