//! The hub that a backend keeps for its signals.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::session::{Session, Stage, Subscriptions};
use super::terms::{SignalEnd, SignalLimits};
use crate::client::outage_log::OutageLog;
use crate::contract::key_watch::KeyWatch;
use crate::contract::signal_status::SignalStatus;
use crate::util::pause::RetryPauses;
use crate::value::{ErrorCode, LockError};

/// The signals of a backend. Dropping it ends its session with the last watch.
pub struct SignalHub(Arc<Shared>);

struct Shared {
    backend: &'static str,
    limits: SignalLimits,
    listen: Box<dyn Fn(Subscriptions) -> Listening + Send + Sync>,
    state: Mutex<State>,
    outage: OutageLog,
}

type Listening = Pin<Box<dyn Future<Output = Result<SignalEnd, LockError>> + Send>>;

/// The hub's knowledge from one session to the next.
#[derive(Default)]
struct State {
    session: Option<Arc<Session>>,
    /// How many sessions in a row have failed.
    failures: u32,
    /// The hub opens no session before this time.
    rests_until: Option<Instant>,
    is_unsupported: bool,
}

impl SignalHub {
    /// One call replaces a lost session once.
    const SESSIONS: usize = 2;

    /// The hub of a backend with this name in the log. `listen` is the session; the hub calls it for a watch when there
    /// is no session. Hubs that share an `outage` log it once.
    ///
    /// The session runs on the runtime of the waiter that began it. When that runtime ends, the next waiter begins
    /// another session.
    pub fn new<F>(
        backend: &'static str,
        limits: SignalLimits,
        outage: OutageLog,
        listen: impl Fn(Subscriptions) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<SignalEnd, LockError>> + Send + 'static,
    {
        let listen = Box::new(move |subscriptions| Box::pin(listen(subscriptions)) as Listening);
        Self(Arc::new(Shared { backend, limits, listen, state: Mutex::default(), outage }))
    }

    /// Watches a record; `None` if the store does not confirm in time, or at all.
    ///
    /// # Cancel safety
    ///
    /// Safe: the watch ends, and the session unsubscribes if no other watch needs the record.
    pub async fn watch(&self, name: &str) -> Option<KeyWatch> {
        let until = Instant::now() + self.0.limits.confirm;
        for _ in 0..Self::SESSIONS {
            let session = self.session()?;
            let Some((watch, confirmed)) = session.join(name) else { continue };
            match timeout_at(until, confirmed).await {
                Ok(Ok(lock)) => return Some(lock.add_to(watch)),
                // Refused.
                Ok(Err(_)) if session.stage(Instant::now()) != Stage::Over => return None,
                Ok(Err(_)) => {}
                // A session that is still opening goes on, for later waiters.
                Err(_) => return None,
            }
        }
        None
    }

    /// The status of the signals.
    #[must_use]
    pub fn status(&self) -> SignalStatus {
        let state = self.0.state();
        let session = state.session.as_ref();
        match session.map(|session| (session.stage(Instant::now()), session.has_confirmed())) {
            _ if state.is_unsupported => SignalStatus::Off,
            Some((Stage::Open, true)) => SignalStatus::Working,
            _ if state.failures > 0 => SignalStatus::Failing,
            _ => SignalStatus::Unused,
        }
    }

    /// Ends the session, and all watches.
    pub fn close(&self) {
        let session = self.0.state().session.take();
        // Close outside the lock: it wakes waiters.
        session.inspect(|session| session.close());
    }

    /// The present session, or a new one.
    fn session(&self) -> Option<Arc<Session>> {
        let now = Instant::now();
        let mut state = self.0.state();
        match state.session.as_ref().map(|session| session.stage(now)) {
            // Earlier waiters have waited for it in vain, and poll.
            Some(Stage::Opening { since }) if since + self.0.limits.confirm <= now => return None,
            Some(Stage::Opening { .. } | Stage::Open) => return state.session.clone(),
            Some(Stage::Stuck) => {
                let stuck = state.session.take();
                drop(state);
                stuck.inspect(|session| session.close());
                return self.session();
            }
            Some(Stage::Over) | None => {}
        }
        if state.is_unsupported || state.rests_until.is_some_and(|until| now < until) {
            return None;
        }
        let runtime = Handle::try_current().ok()?;
        let session = Session::new(self.0.limits);
        state.session = Some(Arc::clone(&session));
        drop(state);
        let running = Running { shared: Arc::clone(&self.0), session: Arc::clone(&session) };
        // Spawn outside the lock: a runtime that is shutting down drops the task here.
        runtime.spawn(running.run());
        Some(session)
    }
}

impl Drop for SignalHub {
    fn drop(&mut self) {
        // The hub forgets the session, so that its end is no outage.
        let session = self.0.state().session.take();
        session.inspect(|session| session.hub_is_gone());
    }
}

impl fmt::Debug for SignalHub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SignalHub").field(&self.status()).finish()
    }
}

impl Shared {
    const RESTS: RetryPauses = RetryPauses::new(Duration::from_millis(100), Duration::from_secs(5));

    fn on_success(&self) {
        self.state().failures = 0;
        if self.outage.ends() {
            tracing::info!(backend = self.backend, "releases by other processes are heard again");
        }
    }

    /// Notes the end of a session.
    fn on_end(&self, session: &Arc<Session>, end: Result<SignalEnd, LockError>) {
        let now = Instant::now();
        if session.proves_good(now) {
            self.on_success();
        }
        let is_unused = session.stage(now) == Stage::Over;
        let mut state = self.state();
        if !state.forget(session) || is_unused {
            return;
        }
        if let Ok(SignalEnd::Unsupported) = end {
            state.is_unsupported = true;
            drop(state);
            tracing::info!(
                backend = self.backend,
                "releases by other processes cannot be heard; waiters poll"
            );
            return;
        }
        state.failures = state.failures.saturating_add(1);
        if !session.is_good() {
            state.rests_until = Some(now + Self::RESTS.pause(state.failures));
        }
        drop(state);
        if let Err(error) = end
            && self.outage.begins()
        {
            tracing::warn!(
                backend = self.backend,
                %error,
                "releases by other processes are not heard at the moment; waiters poll"
            );
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Forgets a session. Returns whether it was the present one.
    fn forget(&mut self, session: &Arc<Session>) -> bool {
        self.session.take_if(|present| Arc::ptr_eq(present, session)).is_some()
    }
}

/// The task of a session. Dropping it, as when its runtime ends, ends all watches.
struct Running {
    shared: Arc<Shared>,
    session: Arc<Session>,
}

impl Running {
    async fn run(self) {
        let listening = (self.shared.listen)(Subscriptions(Arc::clone(&self.session)));
        let end = tokio::select! {
            biased;
            end = listening => end,
            error = self.is_stuck() => Err(error),
        };
        // Before waiters learn that the session is over and ask for the next one.
        self.shared.on_end(&self.session, end);
    }

    /// Waits until the task of the session is overdue, or the session is closed.
    async fn is_stuck(&self) -> LockError {
        loop {
            tokio::select! {
                biased;
                () = sleep_until(self.session.due()) => {}
                () = self.session.due_changed.notified() => {}
            }
            let now = Instant::now();
            if self.session.due() <= now {
                return LockError::new(
                    ErrorCode::NetworkTimeout,
                    "the connection for signals was silent for too long",
                );
            }
            if self.session.proves_good(now) {
                self.shared.on_success();
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.state().forget(&self.session);
        self.session.close();
    }
}
