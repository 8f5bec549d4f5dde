//! Signals from one server.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use syncguard_core::LockError;
use syncguard_core::authoring::{Episode, pause};
use syncguard_core::contract::{KeyWatch, SignalStatus};
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout_at};

use super::route::Route;
use super::session::{self, Session};

/// What a backend does to hear of releases on one server.
pub(super) struct Source {
    shared: Arc<Shared>,
    limits: Limits,
}

/// How long things may take.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// Opening a connection.
    pub(super) opening: Duration,
    /// A command.
    pub(super) command: Duration,
}

/// What outlives the backend for as long as a session needs to end.
pub(super) struct Shared {
    pub(super) route: Route,
    state: Mutex<State>,
    /// What is said in the log, once for all servers.
    outage: Arc<Episode>,
}

struct State {
    stage: Stage,
    /// How many sessions in a row have failed at once.
    failures: u32,
}

enum Stage {
    Unused,
    /// The session is being opened, or open.
    Running(Arc<Session>),
    /// There is no session before this time.
    Failing(Instant),
}

/// Why a session is over.
pub(super) enum Ending {
    /// Nobody has waited for a while.
    Idle,
    /// The runtime that it was opened in is gone.
    NoRuntime,
    /// It cannot be opened, or the connection is lost.
    Failed(LockError),
}

impl Source {
    /// A session that is lost is replaced once within a call.
    const SESSIONS: usize = 2;

    pub(super) fn new(route: Route, outage: Arc<Episode>, limits: Limits) -> Self {
        let state = Mutex::new(State { stage: Stage::Unused, failures: 0 });
        Self { shared: Arc::new(Shared { route, state, outage }), limits }
    }

    /// Begins to listen for the record with this name; `None` if that cannot be done at the moment.
    pub(super) async fn watch(&self, name: &str) -> Option<KeyWatch> {
        let until = Instant::now() + self.limits.command;
        for _ in 0..Self::SESSIONS {
            let session = self.session()?;
            // Given up here, the session goes on opening, for the next one.
            match timeout_at(until, session.watch(name)).await {
                Ok(Ok(watch)) => return watch,
                Ok(Err(session::Over)) => {}
                Err(_) => return None,
            }
        }
        None
    }

    pub(super) fn status(&self) -> SignalStatus {
        let state = self.shared.lock();
        match &state.stage {
            Stage::Running(session) if session.is_open() => SignalStatus::Working,
            Stage::Running(_) if state.failures > 0 => SignalStatus::Failing,
            Stage::Running(_) | Stage::Unused => SignalStatus::Unused,
            Stage::Failing(_) => SignalStatus::Failing,
        }
    }

    /// The session, which is begun if there is none and it is time for one.
    fn session(&self) -> Option<Arc<Session>> {
        let now = Instant::now();
        if let Some(session) = self.shared.running() {
            if !session.is_stuck(now) {
                return Some(session);
            }
            session.end(Ending::Failed(session::not_driven()));
        }
        let runtime = Handle::try_current().ok()?;
        let mut state = self.shared.lock();
        match &state.stage {
            Stage::Running(session) => return Some(Arc::clone(session)),
            Stage::Failing(until) if now < *until => return None,
            Stage::Failing(_) | Stage::Unused => {}
        }
        let (session, run) = Session::begin(&self.shared, self.limits);
        state.stage = Stage::Running(Arc::clone(&session));
        drop(state);
        // Not under the lock: in a runtime that is shutting down, the task ends here.
        runtime.spawn(run);
        Some(session)
    }
}

/// Nobody will ask for signals any more.
impl Drop for Source {
    fn drop(&mut self) {
        if let Some(session) = self.shared.running() {
            session.end(Ending::Idle);
        }
    }
}

impl Shared {
    /// A session that was lost after so long is replaced at once.
    const PROVEN: Duration = Duration::from_secs(5);
    const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
    const LONGEST_PAUSE: Duration = Duration::from_secs(10);

    fn running(&self) -> Option<Arc<Session>> {
        match &self.lock().stage {
            Stage::Running(session) => Some(Arc::clone(session)),
            Stage::Unused | Stage::Failing(_) => None,
        }
    }

    /// A session has been of use.
    pub(super) fn works(&self) {
        if self.outage.ends() {
            tracing::info!("releases of Redis locks by other processes are heard again");
        }
    }

    /// A session is over, which was open for this long.
    pub(super) fn ended(&self, session: &Session, ending: Ending, open_for: Option<Duration>) {
        let mut state = self.lock();
        let Stage::Running(running) = &state.stage else { return };
        if Arc::as_ptr(running) != std::ptr::from_ref(session) {
            return;
        }
        let Ending::Failed(error) = ending else {
            state.stage = Stage::Unused;
            return;
        };
        let now = Instant::now();
        if open_for.is_some_and(|time| time >= Self::PROVEN) {
            state.failures = 0;
            state.stage = Stage::Failing(now);
        } else {
            let pause = Self::SHORTEST_PAUSE * 2_u32.saturating_pow(state.failures.min(10));
            state.failures = state.failures.saturating_add(1);
            state.stage = Stage::Failing(now + pause::jittered(pause.min(Self::LONGEST_PAUSE)));
        }
        drop(state);
        if self.outage.begins() {
            tracing::warn!(
                %error,
                "releases of Redis locks by other processes are not heard; whoever waits for a lock looks \
                 again from time to time"
            );
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
