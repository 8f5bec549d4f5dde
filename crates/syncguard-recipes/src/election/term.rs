//! The term of a leader, and how it ends.

use std::fmt;
use std::future::poll_fn;
use std::ops::Deref;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use syncguard_core::contract::{FenceToken, HashId, Holder};
use syncguard_core::{CancellationToken, Fence, Held};
use tokio::time::sleep;

/// A leader's term, as its work sees it.
///
/// The fence, which is larger than the fences of all earlier terms, and how long this process certainly still leads, are
/// those of [`Held`], to which the term dereferences. But a term ends before its lock does, so that the work can stop in
/// time: [`lost`](Self::lost), [`is_lost`](Self::is_lost) and [`lost_token`](Self::lost_token) are those of the term.
///
/// A `Term` is cheap to clone and to send to other tasks. It does not keep the lead, and dropping it does nothing.
#[derive(Clone)]
pub struct Term<F: FenceToken = Fence> {
    held: Held<F>,
    notice: Duration,
    state: Arc<TermState>,
}

/// Why a term has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TermEnd {
    /// The lock could not be renewed in time, or the store said that it is gone.
    Lost,
    /// The leader has resigned, or its work has ended.
    Resigned,
    /// The shutdown token has fired.
    Shutdown,
}

impl TermEnd {
    /// `"lost"`, `"resigned"` or `"shutdown"`, as the log spells it.
    const fn as_str(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Resigned => "resigned",
            Self::Shutdown => "shutdown",
        }
    }
}

impl<F: FenceToken> Term<F> {
    pub(super) fn new(held: Held<F>, notice: Duration, state: Arc<TermState>) -> Self {
        Self { held, notice, state }
    }

    /// The lock of the term, to pass on. It is lost later than the term.
    #[must_use]
    pub fn held(&self) -> Held<F> {
        self.held.clone()
    }

    /// Returns true if the term has ended or is about to end: the work has to stop.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.state.end().is_some() || self.is_near_end()
    }

    /// Resolves when the work has to stop, with the reason. That is before another process can get the lock.
    ///
    /// # Cancel safety
    ///
    /// Safe: call it again at any time.
    pub async fn lost(&self) -> TermEnd {
        tokio::select! {
            biased;
            () = self.state.told.cancelled() => {}
            () = self.near_end() => {}
        }
        self.state.end().unwrap_or(TermEnd::Lost)
    }

    /// A token that fires when [`lost`](Self::lost) resolves, for work that takes a token.
    /// [`Election::run`](crate::Election::run) fires it, so the task of `run` must not be blocked. Cancelling the token has
    /// no effect on the term.
    #[must_use]
    pub fn lost_token(&self) -> CancellationToken {
        self.state.told.child_token()
    }

    /// Gives the lead up. The work is told and dropped, and other processes go first in the next campaign.
    pub fn resign(&self) {
        self.state.resigned.cancel();
    }

    fn is_near_end(&self) -> bool {
        self.held.valid_for() <= self.notice
    }

    /// Resolves when only the time to stop the work is left.
    pub(super) async fn near_end(&self) {
        self.ends_within(self.notice).await;
    }

    /// Resolves when the work has to be dropped.
    pub(super) async fn last_moment(&self) {
        self.ends_within(self.notice / 2).await;
    }

    /// Resolves when the lock is valid for no longer than `left`. Each poll checks the clock, so that after a stall
    /// nothing else runs first.
    async fn ends_within(&self, left: Duration) {
        let mut lost = pin!(self.held.lost());
        loop {
            let mut pause = pin!(sleep(self.held.valid_for().saturating_sub(left)));
            let is_over = poll_fn(|context| {
                if self.held.valid_for() <= left || lost.as_mut().poll(context).is_ready() {
                    return Poll::Ready(true);
                }
                pause.as_mut().poll(context).map(|()| false)
            });
            if is_over.await {
                return;
            }
        }
    }
}

impl<F: FenceToken> Deref for Term<F> {
    type Target = Held<F>;

    fn deref(&self) -> &Held<F> {
        &self.held
    }
}

impl<F: FenceToken> fmt::Debug for Term<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Term").field("held", &self.held).field("end", &self.state.end()).finish()
    }
}

/// The end of a term, shared by the run, the work and the handles.
pub(super) struct TermState {
    key_hash: HashId,
    fence: Option<Fence>,
    told: CancellationToken,
    end: OnceLock<TermEnd>,
    pub(super) resigned: CancellationToken,
}

impl TermState {
    pub(super) fn new(key_hash: HashId, fence: impl FenceToken) -> Self {
        let (told, resigned) = (CancellationToken::new(), CancellationToken::new());
        Self { key_hash, fence: fence.fence(), told, end: OnceLock::new(), resigned }
    }

    pub(super) fn log_begin(&self, holder: &Holder) {
        tracing::info!(
            key_hash = %self.key_hash,
            fence = self.fence.map(tracing::field::display),
            holder = holder.label(),
            "leads"
        );
    }

    pub(super) fn log_end(&self) {
        tracing::info!(
            key_hash = %self.key_hash,
            fence = self.fence.map(tracing::field::display),
            end = self.end().map(TermEnd::as_str),
            "leads no more"
        );
    }

    /// Tells the work to stop. The first reason counts.
    pub(super) fn tell(&self, end: TermEnd) {
        let _ = self.end.set(end);
        self.told.cancel();
    }

    fn end(&self) -> Option<TermEnd> {
        self.end.get().copied()
    }
}
