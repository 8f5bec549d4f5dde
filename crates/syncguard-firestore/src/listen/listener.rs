//! The stream of a backend, made when somebody waits.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use gcloud_sdk::GoogleAuthMiddleware;
use gcloud_sdk::google::firestore::v1::firestore_client::FirestoreClient;
use gcloud_sdk::google::firestore::v1::listen_request::TargetChange;
use gcloud_sdk::google::firestore::v1::target::{DocumentsTarget, TargetType};
use gcloud_sdk::google::firestore::v1::{ListenRequest, Target};
use syncguard_core::Timestamp;
use syncguard_core::authoring::{Episode, pause};
use syncguard_core::contract::{KeyWatch, SignalStatus, is_live};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::board::{Board, TargetId, Told, Watcher};
use super::stream::Stream;

/// Listens for documents, over one stream. Clones share it.
#[derive(Clone)]
pub(crate) struct Listener(Arc<Shared>);

struct Shared {
    firestore: FirestoreClient<GoogleAuthMiddleware>,
    database: String,
    /// How long the server may take to say that it listens.
    timeout: Duration,
    state: Mutex<State>,
    outage: Episode,
}

#[derive(Default)]
struct State {
    session: Option<Session>,
    last_session: u64,
    status: SignalStatus,
    /// Until then there is no new stream after one that failed.
    again: Option<Instant>,
    pause: Duration,
}

/// What is listened to over a stream, and the way to it.
struct Session {
    number: u64,
    board: Board,
    requests: mpsc::UnboundedSender<ListenRequest>,
    /// Dropped with the session, which ends the task of the stream.
    _ends: oneshot::Sender<()>,
}

/// A listener, seen from the task of its stream, which must not keep it.
#[derive(Clone)]
pub(super) struct Owner(Weak<Shared>);

impl Owner {
    pub(super) fn get(&self) -> Option<Listener> {
        self.0.upgrade().map(Listener)
    }
}

impl Listener {
    const FIRST_PAUSE: Duration = Duration::from_millis(100);
    const LONGEST_PAUSE: Duration = Duration::from_secs(10);

    pub(crate) fn new(
        firestore: FirestoreClient<GoogleAuthMiddleware>,
        database: String,
        timeout: Duration,
    ) -> Self {
        let (state, outage) = (Mutex::default(), Episode::default());
        Self(Arc::new(Shared { firestore, database, timeout, state, outage }))
    }

    /// Whether releases are heard of.
    pub(crate) fn status(&self) -> SignalStatus {
        self.state().status
    }

    /// Listens for a document. `None` if the server does not say in time that it does, or if there is no
    /// stream at the moment.
    pub(crate) async fn watch(
        &self,
        name: &str,
        now: impl Fn() -> Option<Timestamp>,
    ) -> Option<KeyWatch> {
        let (signal, watch) = KeyWatch::new();
        let (place, current) = {
            let mut state = self.state();
            let session = self.session(&mut state)?;
            let joined = session.board.join(name, signal)?;
            if let Some(target) = joined.new {
                let request = self.request(TargetChange::AddTarget(documents(target, name)));
                session.requests.send(request).ok()?;
            }
            let place = Place {
                listener: self.clone(),
                session: session.number,
                name: name.to_owned(),
                watcher: joined.watcher,
            };
            (place, joined.current)
        };
        let session = place.session;
        let watch = watch.keeping(place);
        match tokio::time::timeout(self.0.timeout, current).await {
            Ok(Ok(lock)) => {
                let is_held = |lock: &Told| now().is_some_and(|now| is_live(lock.expires_at, now));
                Some(match lock.filter(is_held) {
                    Some(lock) if lock.has_holder => watch.that_is_locked(),
                    Some(_) => watch.that_is_locked_by_a_poller(),
                    None => watch,
                })
            }
            // Over already.
            Ok(Err(_)) => None,
            Err(_) => {
                self.ended(session, Some("the server does not answer"));
                None
            }
        }
    }

    /// The stream, and a new one if there is none; `None` for some time after one that failed.
    fn session<'a>(&self, state: &'a mut State) -> Option<&'a mut Session> {
        // The task of a stream is dropped with its runtime.
        if state.session.as_ref().is_some_and(|session| session.requests.is_closed()) {
            state.session = None;
        }
        if state.session.is_none() {
            if state.again.is_some_and(|again| Instant::now() < again) {
                return None;
            }
            let runtime = Handle::try_current().ok()?;
            let (requests, sent) = mpsc::unbounded_channel();
            state.last_session += 1;
            let number = state.last_session;
            let (ends, ended) = oneshot::channel();
            let board = Board::default();
            state.session = Some(Session { number, board, requests, _ends: ends });
            let firestore = self.0.firestore.clone();
            let stream = Stream::new(Owner(Arc::downgrade(&self.0)), number, self.0.timeout);
            runtime.spawn(stream.run(firestore, sent, ended));
        }
        state.session.as_mut()
    }

    /// Does something with what is listened to over this stream, unless it is over.
    pub(super) fn with<T>(&self, session: u64, work: impl FnOnce(&mut Board) -> T) -> Option<T> {
        let mut state = self.state();
        let current = state.session.as_mut().filter(|current| current.number == session)?;
        Some(work(&mut current.board))
    }

    /// Releases are heard of.
    pub(super) fn works(&self) {
        let mut state = self.state();
        state.status = SignalStatus::Working;
        (state.again, state.pause) = (None, Duration::ZERO);
        drop(state);
        if self.0.outage.ends() {
            tracing::info!("Firestore tells of released locks again");
        }
    }

    /// Ends a stream over which nobody listens. `false` if somebody does.
    pub(super) fn ended_idle(&self, session: u64) -> bool {
        let mut state = self.state();
        let is_idle = state
            .session
            .as_ref()
            .is_none_or(|current| current.number != session || current.board.is_empty());
        if is_idle && state.session.as_ref().is_some_and(|current| current.number == session) {
            state.session = None;
            state.status = SignalStatus::Unused;
        }
        is_idle
    }

    /// A stream is over, and with it all of its watches. Said if there is a reason to say it.
    pub(super) fn ended(&self, session: u64, failure: Option<&str>) {
        let mut state = self.state();
        let Some(over) = state.session.take_if(|current| current.number == session) else { return };
        state.status = SignalStatus::Failing;
        state.pause = (state.pause * 2).clamp(Self::FIRST_PAUSE, Self::LONGEST_PAUSE);
        state.again = Some(Instant::now() + pause::jittered(state.pause));
        drop(state);
        // Its watches end.
        drop(over);
        if let Some(failure) = failure
            && self.0.outage.begins()
        {
            tracing::warn!(
                failure,
                "Firestore does not tell of released locks; whoever waits looks from time to time"
            );
        }
    }

    fn request(&self, change: TargetChange) -> ListenRequest {
        ListenRequest {
            database: self.0.database.clone(),
            target_change: Some(change),
            ..ListenRequest::default()
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn documents(target_id: TargetId, name: &str) -> Target {
    let documents = DocumentsTarget { documents: vec![name.to_owned()] };
    Target { target_id, target_type: Some(TargetType::Documents(documents)), ..Target::default() }
}

/// Ends a watch when it is dropped.
struct Place {
    listener: Listener,
    session: u64,
    name: String,
    watcher: Watcher,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.listener.state();
        let Some(session) = state.session.as_mut().filter(|one| one.number == self.session) else {
            return;
        };
        if let Some(target) = session.board.leave(&self.name, self.watcher) {
            // A stream that is over needs not be told.
            let _ =
                session.requests.send(self.listener.request(TargetChange::RemoveTarget(target)));
        }
    }
}
