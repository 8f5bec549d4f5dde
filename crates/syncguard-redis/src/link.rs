//! A connection that is replaced when it is lost, silent, or leads to the wrong server.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fred::interfaces::ClientLike as _;
use syncguard_core::authoring::{LookLimit, OutageLog};
use syncguard_core::{CancellationToken, LockError};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout_at};

use crate::connect::Opener;
use crate::error;
use crate::live::Live;

/// One connection of a backend, on a cluster one client.
///
/// A call that finds it lost looks for another one, in its own runtime, and so do calls whose answers say that the
/// server is the wrong one. One look goes on at a time, for all callers, and goes on after they have given up.
pub(crate) struct Link {
    state: Mutex<State>,
    /// `None` for a client of the program, which keeps its connection by itself.
    opener: Option<Arc<Opener>>,
    looks: LookLimit,
    /// Shared by the links of a backend, so that an outage is logged once.
    outage: OutageLog,
}

struct State {
    live: Arc<Live>,
    look: Option<Look>,
    /// Why the last look failed, if it did.
    failure: Option<LockError>,
    /// How many looks have found a server.
    generation: u64,
}

/// A look for another connection. It ends with this value.
struct Look {
    /// Cancelled when the task ends, also if its runtime ends. It wakes the waiters in the order in which they came.
    ended: CancellationToken,
    task: AbortHandle,
}

/// Why a look begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reason {
    /// There is no connection.
    Lost,
    /// The connection gives no answers, or no good ones.
    Bad,
    /// The server is the wrong one.
    WrongServer,
}

impl Link {
    /// How long fred gets to notice that a connection was closed while the process stood still.
    const NOTICE: Duration = Duration::from_millis(1);

    pub(crate) fn new(live: Live, opener: Option<Arc<Opener>>, outage: OutageLog) -> Arc<Self> {
        let state = State { live: Arc::new(live), look: None, failure: None, generation: 0 };
        Arc::new(Self { state: Mutex::new(state), opener, looks: LookLimit::new(), outage })
    }

    /// The client that is there, in whichever state.
    pub(crate) fn current(&self) -> Arc<Live> {
        Arc::clone(&self.state().live)
    }

    /// How often the connection was replaced.
    pub(crate) fn generation(&self) -> u64 {
        self.state().generation
    }

    /// Returns whether a lost connection is replaced by another client.
    pub(crate) fn replaces(&self) -> bool {
        self.opener.is_some()
    }

    /// A way to a simulated server.
    #[cfg(feature = "test-util")]
    pub(crate) fn wire(&self) -> Option<&Arc<dyn crate::simulated::wire::Wire>> {
        self.opener.as_ref()?.wire()
    }

    /// Returns whether a call can be sent at once, as far as fred knows.
    pub(crate) fn is_up(&self) -> bool {
        self.state().live.is_up()
    }

    /// A client for a call that ends at `until`. Waits for a look that goes on, and begins one if there is no
    /// connection.
    pub(crate) async fn live(self: &Arc<Self>, until: Instant) -> Result<Arc<Live>, LockError> {
        let live = {
            let state = self.state();
            let live = &state.live;
            let is_ready = state.look.is_none() && live.is_up() && !live.was_idle();
            if is_ready || self.opener.is_none() {
                return Ok(Arc::clone(live));
            }
            Arc::clone(live)
        };
        // Boxed, because it is rare.
        Box::pin(self.live_after_trouble(live, until)).await
    }

    async fn live_after_trouble(
        self: &Arc<Self>,
        live: Arc<Live>,
        until: Instant,
    ) -> Result<Arc<Live>, LockError> {
        if live.is_up() && self.looking().is_none() {
            sleep(Self::NOTICE).await;
        }
        if !live.is_up() {
            self.look(&live, Reason::Lost);
        }
        if let Some(ended) = self.looking() {
            // The rest of the time is for the call.
            let now = Instant::now();
            let patience = now + until.saturating_duration_since(now) / 2;
            let _ = timeout_at(patience, ended.cancelled()).await;
        }
        let state = self.state();
        if state.live.is_up() {
            return Ok(Arc::clone(&state.live));
        }
        let otherwise = || {
            if state.look.is_some() { error::still_connecting() } else { error::not_connected() }
        };
        Err(state.failure.clone().unwrap_or_else(otherwise))
    }

    /// Begins to look for another connection, if there is none.
    pub(crate) fn restore(self: &Arc<Self>) {
        let live = self.current();
        if !live.is_up() {
            self.look(&live, Reason::Lost);
        }
    }

    /// Looks for another connection than this one, which gave no answers, or none that can be used.
    pub(crate) fn replace(self: &Arc<Self>, live: &Arc<Live>) {
        self.look(live, Reason::Bad);
    }

    /// Looks for another server than that of this connection.
    ///
    /// Over a client of the program, fred connects again, if it would also do that for ever after a loss: without a
    /// policy, a client that cannot connect ends.
    pub(crate) fn look_elsewhere(self: &Arc<Self>, live: &Arc<Live>) {
        if self.opener.is_some() {
            return self.look(live, Reason::WrongServer);
        }
        let policy = live.client.client_reconnect_policy();
        let reconnects = policy.is_some_and(|policy| policy.max_attempts() == 0);
        if reconnects
            && let Ok(runtime) = Handle::try_current()
            && self.looks.permits()
        {
            self.state().generation += 1;
            let client = live.client.clone();
            runtime.spawn(async move { client.force_reconnection().await });
        }
    }

    /// Begins to look for another connection than this one, if no look goes on and the limit permits.
    fn look(self: &Arc<Self>, than: &Arc<Live>, reason: Reason) {
        let (Some(opener), Ok(runtime)) = (&self.opener, Handle::try_current()) else { return };
        let mut state = self.state();
        if state.look.as_ref().is_some_and(Look::goes_on) || !Arc::ptr_eq(&state.live, than) {
            return;
        }
        // A connection that has proved good may be replaced at once.
        let may_look = self.looks.permits() || reason == Reason::Lost && than.has_answered();
        if !may_look {
            return;
        }
        let last = than.server.clone().filter(|_| reason == Reason::WrongServer);
        let (opener, explain) = (Arc::clone(opener), state.failure.is_none());
        let (link, ended) = (Arc::downgrade(self), CancellationToken::new());
        let ends = ended.clone().drop_guard();
        let task = runtime.spawn(async move {
            let opened = opener.open_in_time(last.as_ref(), explain).await;
            if let Some(link) = link.upgrade() {
                link.ends_look(opened);
            }
            drop(ends);
        });
        state.look = Some(Look { ended, task: task.abort_handle() });
    }

    fn ends_look(&self, opened: Result<Live, LockError>) {
        match &opened {
            Ok(_) if self.outage.ends() => tracing::info!("there is a connection to Redis again"),
            Err(error) if self.outage.begins() => say_failed(error),
            _ => {}
        }
        let mut state = self.state();
        state.look = None;
        match opened {
            Ok(live) => {
                state.live = Arc::new(live);
                state.failure = None;
                state.generation += 1;
            }
            Err(error) => state.failure = Some(error),
        }
    }

    /// Ends when the look ends that goes on.
    fn looking(&self) -> Option<CancellationToken> {
        let state = self.state();
        state.look.as_ref().filter(|look| look.goes_on()).map(|look| look.ended.clone())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Look {
    /// False also if its runtime has ended.
    fn goes_on(&self) -> bool {
        !self.ended.is_cancelled()
    }
}

impl Drop for Look {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn say_failed(error: &LockError) {
    let cause = std::error::Error::source(error).map(ToString::to_string);
    tracing::warn!(
        error_code = error.code().as_str(),
        %error,
        cause,
        "there is no connection to Redis; calls try again, at most once a second"
    );
}

#[cfg(test)]
mod tests {
    use fred::clients::Client;
    use syncguard_core::ErrorCode;

    use super::*;

    #[tokio::test]
    async fn a_failure_is_told_until_the_next_connection() {
        let lost = || {
            let options = Live::options(Duration::from_secs(1), false);
            Live::new(&Client::default(), &options, 1, None)
        };
        let link = Link::new(lost(), None, OutageLog::default());
        let refused = LockError::new(ErrorCode::AuthFailed, "a wrong password");
        for (opened, code) in
            [(Err(refused), ErrorCode::AuthFailed), (Ok(lost()), ErrorCode::ServiceUnavailable)]
        {
            link.ends_look(opened);
            let error = link.live_after_trouble(link.current(), Instant::now()).await.err();
            assert_eq!(error.unwrap().code(), code);
        }
    }
}
