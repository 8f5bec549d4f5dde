//! One of many processes leads.

mod campaign;
mod handle;
mod term;

use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use syncguard_core::authoring::checked_timeout;
use syncguard_core::authoring::recipes::{Parting, as_recipe};
use syncguard_core::{CancellationToken, LockBackend, LockConfig, LockError};
use tokio::time::{Instant, sleep_until, timeout};

pub use self::handle::ElectionHandle;
use self::handle::LeaderStatus;
use self::term::TermState;
pub use self::term::{Term, TermEnd};
use crate::outage::{PAUSES, give_back};
use crate::settings::goes_on;

/// The recipe that observers are told for the lock.
const RECIPE: &str = "election";

/// An election: one of many processes with the same key leads, and when it stops or dies, another one leads.
///
/// ```
/// use syncguard_core::{CancellationToken, LockBackend, LockError};
/// use syncguard_recipes::Election;
///
/// # async fn write_reports(_: impl Sized) {}
/// async fn reports<B: LockBackend>(backend: B, shutdown: CancellationToken) -> Result<(), LockError> {
///     let election = Election::new(backend, "leader:reports").with_shutdown(shutdown);
///     election.run(async |term| write_reports(term.fence()).await).await
/// }
/// ```
///
/// After a crash of the leader no process leads until its TTL and
/// [`TIME_TOLERANCE`](syncguard_core::contract::TIME_TOLERANCE) are over. After a resignation or a shutdown the next process
/// leads at once.
#[must_use = "an election does nothing until it is run"]
pub struct Election<B> {
    backend: B,
    config: LockConfig,
    notice: Option<Duration>,
    grace: Duration,
    shutdown: CancellationToken,
    status: Arc<LeaderStatus>,
}

impl<B: LockBackend> Election<B> {
    /// An election among all processes that use this key. Takes the key, or a [`LockConfig`] with it, for the lock of a term:
    /// its TTL is how long no process leads after a crash, without the tolerance; its note is `election` unless another one
    /// is set, and by that the command `syncguard` tells a term from other locks. The lock is renewed.
    ///
    /// [`run`](Self::run) reports a bad argument. How long and how often to try is one, and so are a time to ride out and a
    /// cancellation token: a campaign goes on until the shutdown.
    pub fn new(backend: B, config: impl Into<LockConfig>) -> Self {
        Self {
            backend,
            config: as_recipe(config, RECIPE),
            notice: None,
            grace: Duration::ZERO,
            shutdown: CancellationToken::new(),
            status: Arc::default(),
        }
    }

    syncguard_core::setters! {
        /// How long before the lock expires the work is told that its term ends, if the lock cannot be renewed. The work
        /// has half of this time to end by itself, then it is dropped. From 1 ms to half of the TTL. Default: a fifth of the
        /// TTL.
        with_notice(notice: Some(Duration));
        /// How long the work may go on after it was told to stop for a resignation or a shutdown, while the lock is still
        /// held. Default: zero, so the work is dropped at once.
        with_grace(grace: Duration);
        /// Ends [`run`](Self::run) when the token fires: the work is told, and the lock is given back.
        with_shutdown(shutdown: CancellationToken);
    }

    /// A handle to resign from elsewhere, and to see whether this process leads.
    #[must_use]
    pub fn handle(&self) -> ElectionHandle {
        ElectionHandle::new(Arc::clone(&self.status))
    }

    /// Campaigns, leads, and campaigns again, until the shutdown token fires.
    ///
    /// The work runs once in each term, and gets a [`Term`]. If the term ends before the work does, [`Term::lost`]
    /// tells the work, and the work is dropped at its current await before another process can get the lock. Work that
    /// blocks a thread, and spawned tasks, have to check [`Term::lost`] or [`Term::lost_token`] themselves. If the work
    /// ends by itself, that is a resignation: the lock is given back, other processes go first for up to a second, and
    /// the campaign goes on.
    ///
    /// In a spawned task the work owns its state, as in `async move |term| reports.write(term).await`. If it borrows, the
    /// compiler says "implementation of `Send` is not general enough".
    ///
    /// If the store fails, the campaign goes on: one warning is logged for each outage, and the store is asked at least
    /// once a second.
    ///
    /// The begin and the end of each term are logged at `INFO`, as "leads" and "leads no more", with the hash of the key
    /// and the fence; the begin also with the holder's label.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a bad key or setting, before anything is sent, and failures of the store that a retry cannot
    /// mend, such as `AuthFailed`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work at its current await and gives the lock back in the background.
    #[expect(
        clippy::manual_async_fn,
        reason = "an async function keeps its arguments twice, and every leader waits in this future"
    )]
    pub fn run<W>(self, mut work: W) -> impl Future<Output = Result<(), LockError>>
    where
        W: AsyncFnMut(Term<B::Fence>),
    {
        // All steps but the term itself are boxed: a leader waits in the term most of the time, and a candidate in the
        // campaign, so the futures of the other steps would only make this future larger.
        async move {
            let notice = self.checked_notice()?;
            while let Some(guard) =
                Box::pin(campaign::win(&self.backend, &self.config, &self.shutdown)).await?
            {
                let held = guard.held();
                let state = Arc::new(TermState::new(self.config.key()?.hash_id(), held.fence()));
                let term = Term::new(held, notice, Arc::clone(&state));
                state.log_begin(&self.config.holder(self.backend.client_state()));
                let end = {
                    let _active = self.status.begin_term(&state);
                    let work = pin!(work(term.clone()));
                    self.lead(work, &term, &state).await
                };
                // A failure is logged, and the campaign goes on.
                let _ = Box::pin(give_back(*guard, Parting::Free, "a leader's")).await;
                if self.shutdown.is_cancelled() {
                    break;
                }
                if end == TermEnd::Resigned {
                    let pause = PAUSES.longest.min(self.config.ttl().as_duration());
                    // An error means that the pause is over, and the campaign goes on.
                    let _ = Box::pin(timeout(pause, self.shutdown.cancelled())).await;
                }
            }
            Ok(())
        }
    }

    /// One term, until the work has ended or is to be dropped.
    async fn lead(
        &self,
        mut work: Pin<&mut impl Future<Output = ()>>,
        term: &Term<B::Fence>,
        state: &TermState,
    ) -> TermEnd {
        let told = async {
            tokio::select! {
                biased;
                () = term.near_end() => TermEnd::Lost,
                () = state.resigned.cancelled() => TermEnd::Resigned,
                () = self.shutdown.cancelled() => TermEnd::Shutdown,
            }
        };
        let end = tokio::select! {
            // The end of the term comes first: after a stall, both may be ready.
            biased;
            end = told => end,
            () = &mut work => {
                // Tasks that the work has spawned have to stop, too.
                state.tell(TermEnd::Resigned);
                return TermEnd::Resigned;
            }
        };
        state.tell(end);
        self.status.end_term();
        Box::pin(self.wind_down(work, term, end)).await;
        end
    }

    /// Lets the work end by itself after it was told to stop, for as long as the grace and the lock allow.
    async fn wind_down(
        &self,
        mut work: Pin<&mut impl Future<Output = ()>>,
        term: &Term<B::Fence>,
        end: TermEnd,
    ) {
        let grace = sleep_until(Instant::now() + self.grace);
        let mut time_is_over = pin!(async {
            tokio::select! {
                biased;
                () = term.last_moment() => {}
                () = grace, if end != TermEnd::Lost => {}
            }
        });
        poll_fn(|context| {
            // The work is not polled any more once its time is over.
            if time_is_over.as_mut().poll(context).is_ready() {
                return Poll::Ready(());
            }
            work.as_mut().poll(context)
        })
        .await;
    }

    fn checked_notice(&self) -> Result<Duration, LockError> {
        self.config.check()?;
        goes_on(&self.config, "an election")?;
        if !self.grace.is_zero() {
            checked_timeout("grace", self.grace)?;
        }
        let ttl = self.config.ttl().as_duration();
        let Some(notice) = self.notice else { return Ok(ttl / 5) };
        if notice < Duration::from_millis(1) || notice > ttl / 2 {
            return Err(LockError::invalid_argument(format!(
                "the notice is {notice:?}; 1 ms to half of the TTL, {:?}, are allowed",
                ttl / 2
            )));
        }
        Ok(notice)
    }
}

impl<B: LockBackend> fmt::Debug for Election<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Election")
            .field("backend", &self.backend.capabilities().backend)
            .field("config", &self.config)
            .field("notice", &self.notice)
            .field("grace", &self.grace)
            .finish_non_exhaustive()
    }
}
