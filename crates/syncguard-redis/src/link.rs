//! A connection that is replaced when it is lost, silent, or leads to the wrong server.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fred::types::cluster::ClusterRouting;
use syncguard_core::authoring::{LookLimit, OutageLog};
use syncguard_core::{CancellationToken, LockError};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::error;
use crate::live::Live;
use crate::service::{Servers, Service};

/// One connection of a backend, on a cluster one client.
///
/// A call that finds it lost looks for another one, in its own runtime, and so do calls whose answers say that the
/// server is the wrong one. One search goes on at a time, for all callers, and does not end when they give up.
pub(crate) struct Link {
    state: Mutex<State>,
    /// `None` for a client of the program, which keeps its connection by itself.
    opener: Option<Opener>,
    looks: LookLimit,
    /// Shared by the links of a backend, so that an outage is logged once.
    outage: OutageLog,
}

/// Opens connections in the place of lost ones.
#[derive(Clone)]
pub(crate) struct Opener {
    pub(crate) servers: Arc<dyn Servers>,
    pub(crate) connect_timeout: Duration,
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

    pub(crate) fn new(live: Live, opener: Option<Opener>, outage: OutageLog) -> Arc<Self> {
        let state = State { live: Arc::new(live), look: None, failure: None, generation: 0 };
        Arc::new(Self { state: Mutex::new(state), opener, looks: LookLimit::default(), outage })
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

    /// Returns whether a call can be sent at once, as far as fred knows.
    pub(crate) fn is_up(&self) -> bool {
        self.state().live.service.is_up()
    }

    /// A client for a call that ends at `until`. Waits for a look that goes on, and begins one if there is no
    /// connection.
    pub(crate) async fn live(self: &Arc<Self>, until: Instant) -> Result<Arc<Live>, LockError> {
        let live = {
            let state = self.state();
            let live = &state.live;
            let is_ready = state.look.is_none() && live.service.is_up() && !live.was_idle();
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
        if live.service.is_up() && self.looking().is_none() {
            sleep(Self::NOTICE).await;
        }
        if !live.service.is_up() {
            self.look(&live, Reason::Lost);
        }
        if let Some(ended) = self.looking() {
            // The rest of the time is for the call.
            let now = Instant::now();
            let patience = now + until.saturating_duration_since(now) / 2;
            let _ = timeout_at(patience, ended.cancelled()).await;
        }
        let state = self.state();
        if state.live.service.is_up() {
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
        if !live.service.is_up() {
            self.look(&live, Reason::Lost);
        }
    }

    /// Looks for another connection than this one, which is lost, although the driver may not have noticed that yet.
    pub(crate) fn lost(self: &Arc<Self>, live: &Arc<Live>) {
        self.look(live, Reason::Lost);
    }

    /// Looks for another connection than this one, which gave no answers, or none that can be used.
    pub(crate) fn replace(self: &Arc<Self>, live: &Arc<Live>) {
        self.look(live, Reason::Bad);
    }

    /// Looks for another server than that of this connection.
    ///
    /// Over a client of the program, the driver connects again, if it would also do that for ever after a loss.
    pub(crate) fn look_elsewhere(self: &Arc<Self>, live: &Arc<Live>) {
        if self.opener.is_some() {
            return self.look(live, Reason::WrongServer);
        }
        if let Some(reconnecting) = live.service.reconnecting()
            && let Ok(runtime) = Handle::try_current()
            && self.looks.permits()
        {
            self.state().generation += 1;
            runtime.spawn(reconnecting);
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
        let last = than.service.server().cloned().filter(|_| reason == Reason::WrongServer);
        let (opener, explain) = (opener.clone(), state.failure.is_none());
        let (link, ended) = (Arc::downgrade(self), CancellationToken::new());
        let ends = ended.clone().drop_guard();
        let task = runtime.spawn(async move {
            let opening = opener.servers.open(last.as_ref(), explain);
            let opened = timeout(opener.connect_timeout, opening)
                .await
                .unwrap_or_else(|_| Err(error::still_connecting()));
            if let Some(link) = link.upgrade() {
                link.ends_look(opened);
            }
            drop(ends);
        });
        state.look = Some(Look { ended, task: task.abort_handle() });
    }

    fn ends_look(&self, opened: Result<Box<dyn Service>, LockError>) {
        match &opened {
            Ok(_) if self.outage.ends() => tracing::info!("there is a connection to Redis again"),
            Err(error) if self.outage.begins() => say_failed(error),
            _ => {}
        }
        let mut state = self.state();
        state.look = None;
        match opened {
            Ok(service) => {
                state.live = Arc::new(state.live.replaced_by(service));
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

/// The nodes of the cluster behind these connections, as far as the driver knows.
pub(crate) fn nodes(links: &[Arc<Link>]) -> Option<ClusterRouting> {
    links.iter().find_map(|link| link.current().service.cluster()?.nodes())
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
    use crate::fred_client::FredClient;

    #[tokio::test]
    async fn a_failure_is_told_until_the_next_connection() {
        let lost = || -> Box<dyn Service> {
            Box::new(FredClient::of_program(&Client::default(), Duration::from_secs(1)))
        };
        let link = Link::new(Live::new(lost(), 1), None, OutageLog::default());
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
