//! Hearing of releases by other processes: a connection beside the pool, which is there while somebody
//! of this process waits.
//!
//! Who watches a key holds an advisory lock on the key's number, shared, in the session of that
//! connection. A release tries the same lock exclusively, and says something only if it does not get it.
//! The number goes away with the session, whatever becomes of the process.
//!
//! A session that fails ends all its watches. The next one who waits begins another, after a pause that
//! grows: waiting goes on by polling meanwhile, and each poll asks again.

mod board;
mod plan;
mod route;
mod session;
mod task;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use syncguard_core::authoring::{Episode, pause};
use syncguard_core::contract::{KeyWatch, SignalStatus};
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout};

use self::plan::Plan;
pub(crate) use self::route::{Route, SignalOptions};
use self::session::{Session, Stage};
use self::task::End;
use crate::settings::Settings;

/// The signals of a backend.
pub(crate) struct Signals {
    /// `None`: there are none with these settings.
    plan: Option<Arc<Plan>>,
    state: Arc<Mutex<State>>,
}

/// What is known from one session to the next.
#[derive(Default)]
struct State {
    session: Option<Arc<Session>>,
    /// Sessions in a row that came to nothing.
    failures: u32,
    /// No session begins any earlier.
    rests_until: Option<Instant>,
    is_behind_a_pooler: bool,
    outage: Episode,
}

impl Signals {
    /// The longest to wait for the server's word that a key is watched.
    const LONGEST_WAIT: Duration = Duration::from_millis(400);

    pub(crate) fn new(settings: &Settings) -> Self {
        Self { plan: Plan::new(settings).map(Arc::new), state: Arc::default() }
    }

    /// Watches a key, whose name in the table this is. `None` if that is not possible at the moment.
    pub(crate) async fn watch(&self, storage_key: &str) -> Option<KeyWatch> {
        let session = self.session()?;
        let (watch, watched) = session.join(storage_key)?;
        let is_watched = matches!(timeout(Self::LONGEST_WAIT, watched).await, Ok(Ok(())));
        is_watched.then_some(watch)
    }

    /// Whether they are heard.
    pub(crate) fn status(&self) -> SignalStatus {
        let state = lock(&self.state);
        if self.plan.is_none() || state.is_behind_a_pooler {
            return SignalStatus::Off;
        }
        match state.session.as_ref().map(|session| session.stage(Instant::now())) {
            Some(Stage::Open) => SignalStatus::Working,
            _ if state.failures > 0 => SignalStatus::Failing,
            _ => SignalStatus::Unused,
        }
    }

    /// The session that there is, or a new one.
    fn session(&self) -> Option<Arc<Session>> {
        let plan = self.plan.as_ref()?;
        let now = Instant::now();
        let mut state = lock(&self.state);
        if let Some(session) = &state.session {
            match session.stage(now) {
                Stage::Open => return Some(Arc::clone(session)),
                // Whoever has waited for it in vain goes on polling, and so do those who come later.
                Stage::Opening { since } => {
                    let is_soon = now < since + Self::LONGEST_WAIT;
                    return is_soon.then(|| Arc::clone(session));
                }
                Stage::Over => {}
            }
        }
        if state.is_behind_a_pooler || state.rests_until.is_some_and(|until| now < until) {
            return None;
        }
        let runtime = Handle::try_current().ok()?;
        let session = Session::new(now + plan.connect);
        state.session = Some(Arc::clone(&session));
        drop(state);
        let running = Running {
            session: Arc::clone(&session),
            plan: Arc::clone(plan),
            state: Arc::clone(&self.state),
        };
        runtime.spawn(running.run());
        Some(session)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        if let Some(session) = &lock(&self.state).session {
            session.backend_is_gone();
        }
    }
}

impl fmt::Debug for Signals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Signals").field(&self.status()).finish()
    }
}

/// A session and its task. Dropped, as when its runtime ends, it ends all watches.
struct Running {
    session: Arc<Session>,
    plan: Arc<Plan>,
    state: Arc<Mutex<State>>,
}

impl Running {
    async fn run(self) {
        let end = task::run(&self.session, &self.plan, || lock(&self.state).works()).await;
        // Before anybody hears that the session is over, and asks for the next one.
        lock(&self.state).ended(end);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.session.close();
    }
}

impl State {
    const SHORTEST_REST: Duration = Duration::from_millis(100);
    const LONGEST_REST: Duration = Duration::from_secs(5);

    fn works(&mut self) {
        self.failures = 0;
        if self.outage.ends() {
            tracing::info!(backend = "postgres", "releases by other processes are heard again");
        }
    }

    fn ended(&mut self, end: End) {
        match end {
            End::Unused => self.works(),
            End::Pooler => {
                self.is_behind_a_pooler = true;
                tracing::info!(
                    backend = "postgres",
                    "behind a pooler, releases by other processes are not heard; waiting goes on by polling"
                );
            }
            End::Failed(error) => {
                let rest = Self::SHORTEST_REST.saturating_mul(1 << self.failures.min(10));
                let rest = pause::jittered(rest.min(Self::LONGEST_REST));
                self.failures += 1;
                self.rests_until = Some(Instant::now() + rest);
                if self.outage.begins() {
                    tracing::warn!(
                        backend = "postgres",
                        %error,
                        "releases by other processes are not heard at the moment; waiting goes on by polling"
                    );
                }
            }
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
