//! Of many processes one leads.

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
use syncguard_core::{
    AutoExtend, CancellationToken, IntoKey, IntoTtl, LockBackend, LockConfig, LockError, LockGuard,
};
use tokio::time::{Instant, sleep_until, timeout};

pub use self::handle::ElectionHandle;
use self::handle::Leads;
use self::term::Ending;
pub use self::term::{Term, TermEnd};

/// What observers are told that the lock is part of.
const RECIPE: &str = "election";

/// How long one that has resigned lets others go first, unless its TTL is shorter.
const STEP_BACK: Duration = Duration::from_secs(1);

/// An election: of many processes with the same key one leads, and when it stops or dies another one does.
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
/// After a crash of the leader nobody leads until its TTL and [`TIME_TOLERANCE`](syncguard_core::contract::TIME_TOLERANCE)
/// are over. After it has resigned or was shut down, the next one leads at once.
#[must_use = "an election does nothing until it is run"]
pub struct Election<B> {
    backend: B,
    config: LockConfig,
    notice: Option<Duration>,
    grace: Duration,
    shutdown: CancellationToken,
    leads: Arc<Leads>,
}

impl<B: LockBackend> Election<B> {
    /// An election of everybody who uses this key. Takes a text or a [`Key`](syncguard_core::Key); a bad key is reported by
    /// [`run`](Self::run).
    pub fn new(backend: B, key: impl IntoKey) -> Self {
        Self {
            backend,
            config: LockConfig::new(key).with_auto_extend(AutoExtend::new()).with_recipe(RECIPE),
            notice: None,
            grace: Duration::ZERO,
            shutdown: CancellationToken::new(),
            leads: Arc::default(),
        }
    }

    /// How long nobody leads after a crash, but for the tolerance. A leader renews three times as often.
    /// Default: 30 s.
    pub fn with_ttl(mut self, ttl: impl IntoTtl) -> Self {
        self.config = self.config.with_ttl(ttl);
        self
    }

    /// How long before the end of its time the work is told that its term ends, where the lock cannot be
    /// renewed. Half of it is left to the work to end by itself, then it is dropped. From 1 ms to half of the
    /// TTL. Default: a fifth of the TTL.
    pub fn with_notice(mut self, notice: Duration) -> Self {
        self.notice = Some(notice);
        self
    }

    /// How long the work may go on after it was told to stop for a resignation or a shutdown, while the
    /// lock is still held. Default: not at all, it is dropped.
    pub fn with_grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Ends [`run`](Self::run) when the token fires: the work is told, the lock is given back.
    pub fn with_shutdown(mut self, shutdown: CancellationToken) -> Self {
        self.shutdown = shutdown;
        self
    }

    /// To resign from elsewhere, and to see whether this process leads.
    #[must_use]
    pub fn handle(&self) -> ElectionHandle {
        ElectionHandle::new(Arc::clone(&self.leads))
    }

    /// Campaigns, leads, and campaigns again, until the shutdown token fires.
    ///
    /// The work runs once a term, and gets a [`Term`]. When the term ends before the work does, the work is told
    /// by [`Term::lost`], and dropped where it waits before the lock can be somebody else's. Work that blocks
    /// a thread, or that was spawned, has to look at [`Term::lost`] or [`Term::lost_token`] itself. When the
    /// work ends by itself, that is a resignation: the lock is given back, others go first for up to a
    /// second, and the campaign goes on.
    ///
    /// While the store fails the campaign goes on: it is said in the log once, and tried again at least
    /// every second.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a bad key or setting, before anything is sent, and the store's failures that no retry
    /// gets over, such as `AuthFailed`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work where it is and gives the lock back in the background.
    #[expect(
        clippy::manual_async_fn,
        reason = "an async function keeps its arguments twice, and every leader waits in this future"
    )]
    pub fn run<W>(self, mut work: W) -> impl Future<Output = Result<(), LockError>>
    where
        W: AsyncFnMut(Term<B::Fence>),
    {
        // Boxed where it is not the term itself: most of the time a leader waits in there, or a candidate in
        // the campaign, and what belongs to other moments would be part of it.
        async move {
            let notice = self.checked_notice()?;
            while let Some(guard) =
                Box::pin(campaign::win(&self.backend, &self.config, &self.shutdown)).await?
            {
                let ending = Arc::new(Ending::new());
                let term = Term::new(guard.held(), notice, Arc::clone(&ending));
                let end = {
                    let _leading = self.leads.begin(&ending);
                    let work = pin!(work(term.clone()));
                    self.lead(work, &term, &ending).await
                };
                Box::pin(give_back(*guard)).await;
                if self.shutdown.is_cancelled() {
                    break;
                }
                if end == TermEnd::Resigned {
                    let pause = STEP_BACK.min(self.config.ttl().as_duration());
                    // An error says that the time is over, and the campaign goes on.
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
        ending: &Ending,
    ) -> TermEnd {
        let told = async {
            tokio::select! {
                biased;
                () = term.near_end() => TermEnd::Lost,
                () = ending.resigned() => TermEnd::Resigned,
                () = self.shutdown.cancelled() => TermEnd::Shutdown,
            }
        };
        let end = tokio::select! {
            // The end first: after a stall, both may be ready.
            biased;
            end = told => end,
            () = &mut work => {
                // Whatever it has spawned is to stop, too.
                ending.tell(TermEnd::Resigned);
                return TermEnd::Resigned;
            }
        };
        ending.tell(end);
        self.leads.ends();
        Box::pin(self.wind_down(work, term, end)).await;
        end
    }

    /// The work has been told: lets it end by itself for as long as may be.
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
            // The work is not touched any more once its time is over.
            if time_is_over.as_mut().poll(context).is_ready() {
                return Poll::Ready(());
            }
            work.as_mut().poll(context)
        })
        .await;
    }

    fn checked_notice(&self) -> Result<Duration, LockError> {
        self.config.check()?;
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

/// Without this, the next leader would have to wait for the TTL.
async fn give_back<B: LockBackend>(guard: LockGuard<B>) {
    if let Err(error) = guard.release().await {
        tracing::warn!(
            error_code = error.code().as_str(),
            %error,
            "a leader's lock was not given back; it is tried again until the lock expires"
        );
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
