//! The time for which somebody leads.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use syncguard_core::contract::FenceToken;
use syncguard_core::{CancellationToken, Fence, Held};
use tokio::time::sleep;

/// What the work of a leader knows of its term.
///
/// Cheap to clone and to send to other tasks; it does not keep the lead. Dropping it does nothing.
#[derive(Clone)]
pub struct Term<F: FenceToken = Fence> {
    held: Held<F>,
    notice: Duration,
    ending: Arc<Ending>,
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

impl<F: FenceToken> Term<F> {
    pub(super) fn new(held: Held<F>, notice: Duration, ending: Arc<Ending>) -> Self {
        Self { held, notice, ending }
    }

    /// The fence of this term, above those of all earlier ones. Send it along with every write.
    #[must_use]
    pub fn fence(&self) -> F {
        self.held.fence()
    }

    /// How long this process may still believe that it leads: see
    /// [`Held::valid_for`](syncguard_core::Held::valid_for).
    #[must_use]
    pub fn valid_for(&self) -> Duration {
        self.held.valid_for()
    }

    /// Whether the term has ended, or is about to: the work is to stop.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.ending.end().is_some() || self.is_near_end()
    }

    /// Resolves when the work is to stop, and says why: before the lock can be somebody else's.
    ///
    /// # Cancel safety
    ///
    /// Safe: call it again at any time.
    pub async fn lost(&self) -> TermEnd {
        tokio::select! {
            biased;
            () = self.ending.told.cancelled() => {}
            () = self.near_end() => {}
        }
        self.ending.end().unwrap_or(TermEnd::Lost)
    }

    /// A token that fires when [`lost`](Self::lost) resolves, for work that takes a token. It is fired by
    /// [`Election::run`](crate::Election::run), whose task must not be blocked for that. Cancelling it has no
    /// effect on the term.
    #[must_use]
    pub fn lost_token(&self) -> CancellationToken {
        self.ending.told.child_token()
    }

    /// Gives the lead up. The work is told and dropped, and others go first in the campaign that follows.
    pub fn resign(&self) {
        self.ending.resign();
    }

    fn is_near_end(&self) -> bool {
        self.held.valid_for() <= self.notice
    }

    /// Resolves when no more time is left than is needed to stop the work.
    pub(super) async fn near_end(&self) {
        self.ends_within(self.notice).await;
    }

    /// Resolves when the work is to be dropped.
    pub(super) async fn last_moment(&self) {
        self.ends_within(self.notice / 2).await;
    }

    /// Looks at the clock each time it is polled, so that after a stall nothing else comes first.
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

impl<F: FenceToken> fmt::Debug for Term<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Term").field("held", &self.held).field("end", &self.ending.end()).finish()
    }
}

/// How a term ends, as its leader, its work and its handle share it.
pub(super) struct Ending {
    told: CancellationToken,
    end: OnceLock<TermEnd>,
    resigned: CancellationToken,
}

impl Ending {
    pub(super) fn new() -> Self {
        let (told, resigned) = (CancellationToken::new(), CancellationToken::new());
        Self { told, end: OnceLock::new(), resigned }
    }

    /// Tells the work to stop. The first reason stands.
    pub(super) fn tell(&self, end: TermEnd) {
        let _ = self.end.set(end);
        self.told.cancel();
    }

    pub(super) fn resign(&self) {
        self.resigned.cancel();
    }

    pub(super) async fn resigned(&self) {
        self.resigned.cancelled().await;
    }

    fn end(&self) -> Option<TermEnd> {
        self.end.get().copied()
    }
}
