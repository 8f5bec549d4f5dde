//! A signal hub over a store whose part the test plays.

use std::sync::Arc;
use std::time::Duration;

use syncguard_core::authoring::OutageLog;
use syncguard_core::authoring::signals::{
    LockSeen, SignalEnd, SignalHub, SignalLimits, Subscriptions,
};
use syncguard_core::contract::{KeyWatch, SignalStatus};
use syncguard_core::{ErrorCode, LockError};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

pub(crate) const LIMITS: SignalLimits = SignalLimits {
    open: Duration::from_secs(3),
    step: Duration::from_secs(2),
    confirm: Duration::from_secs(1),
};
/// Longer than any pause between sessions.
pub(crate) const RESTED: Duration = Duration::from_secs(6);

/// A hub and the sessions that it opens.
pub(crate) struct Store {
    pub(crate) hub: Arc<SignalHub>,
    pub(crate) sessions: mpsc::UnboundedReceiver<Session>,
}

/// A session, whose part the test plays.
pub(crate) struct Session {
    pub(crate) subscriptions: Subscriptions,
    pub(crate) end: oneshot::Sender<Result<SignalEnd, LockError>>,
}

pub(crate) fn failure() -> LockError {
    LockError::new(ErrorCode::ServiceUnavailable, "as the test wants it")
}

impl Store {
    pub(crate) fn new() -> Self {
        Self::with_outage(OutageLog::default())
    }

    pub(crate) fn with_outage(outage: OutageLog) -> Self {
        let (sender, sessions) = mpsc::unbounded_channel();
        let listen = move |subscriptions| {
            let (end, ended) = oneshot::channel();
            drop(sender.send(Session { subscriptions, end }));
            async move { ended.await.unwrap_or_else(|_| Err(failure())) }
        };
        Self { hub: Arc::new(SignalHub::new("test", LIMITS, outage, listen)), sessions }
    }

    pub(crate) fn watch(&self, name: &'static str) -> JoinHandle<Option<KeyWatch>> {
        let hub = Arc::clone(&self.hub);
        tokio::spawn(async move { hub.watch(name).await })
    }

    pub(crate) async fn session(&mut self) -> Session {
        self.sessions.recv().await.expect("a hub")
    }

    /// Opens a session and confirms a watch.
    pub(crate) async fn open(&mut self, name: &'static str) -> (Session, KeyWatch) {
        let waiting = self.watch(name);
        let session = self.session().await;
        session.confirms(name, true).await;
        (session, waiting.await.expect("no panic").expect("a watch"))
    }

    pub(crate) fn status(&self) -> SignalStatus {
        self.hub.status()
    }
}

impl Session {
    pub(crate) async fn asks(&self) -> (Vec<String>, Vec<String>) {
        let changes = self.subscriptions.next().await.expect("changes");
        (changes.subscribe, changes.unsubscribe)
    }

    pub(crate) async fn confirms(&self, name: &str, is_locked: bool) {
        assert_eq!(self.asks().await.0, [name]);
        let lock = if is_locked { LockSeen::Held } else { LockSeen::MayBeFree };
        self.subscriptions.confirm(name, lock);
    }

    /// Ends the session, and waits until the hub knows.
    pub(crate) async fn ends(self, end: Result<SignalEnd, LockError>) {
        drop(self.end.send(end));
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
    }
}
