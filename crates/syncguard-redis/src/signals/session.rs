//! One connection on which changes of records are heard.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use fred::clients::Client;
use fred::interfaces::{ClientLike, TrackingInterface};
use fred::types::ConnectHandle;
use fred::types::client::Invalidation;
use syncguard_core::authoring::pause::random_part;
use syncguard_core::contract::KeyWatch;
use syncguard_core::{ErrorCode, LockError, LockInfo};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::board::{Board, Watcher};
use super::source::{Ending, Limits, Shared};
use crate::client::Connections;
use crate::driver::At;
use crate::error::{self, Stage};
use crate::{lookup, reply};

/// One connection, from before it is opened until it is lost or closed.
///
/// Its task drives it. The watches are on a board that everybody can reach, so that a session can be ended
/// from anywhere, also where nobody drives its task.
pub(super) struct Session {
    shared: Weak<Shared>,
    limits: Limits,
    progress: watch::Sender<Progress>,
    state: Mutex<State>,
    /// Whether the server has said anything since it was last looked after.
    was_heard: AtomicBool,
    /// Whether it has answered for a record.
    has_worked: AtomicBool,
}

#[derive(Clone)]
enum Progress {
    Opening,
    Open(Arc<Connections>),
    Over,
}

struct State {
    /// `None` once the session is over.
    board: Option<Board>,
    opened_at: Option<Instant>,
    /// When the task must have moved on. If it has not, nobody drives it.
    due: Instant,
}

/// The session is over.
pub(super) struct Over;

impl Session {
    /// How often it is looked after.
    const LOOK_AFTER: Duration = Duration::from_secs(5);
    /// It is closed when nobody has watched anything for so long.
    const IDLE: Duration = Duration::from_secs(10);
    /// How late its task may be.
    const GRACE: Duration = Duration::from_secs(5);
    /// How long to leave a record alone at the most that changes whenever it is read.
    const PAUSE: Duration = Duration::from_millis(1);

    /// A session, and the task that drives it.
    pub(super) fn begin(
        shared: &Arc<Shared>,
        limits: Limits,
    ) -> (Arc<Self>, impl Future<Output = ()> + Send + use<>) {
        let now = Instant::now();
        let state = State {
            board: Some(Board::new(now)),
            opened_at: None,
            due: now + limits.opening + Self::GRACE,
        };
        let session = Arc::new(Self {
            shared: Arc::downgrade(shared),
            limits,
            progress: watch::Sender::new(Progress::Opening),
            state: Mutex::new(state),
            was_heard: AtomicBool::new(false),
            has_worked: AtomicBool::new(false),
        });
        let client = shared.route.client(limits.command);
        let task = Task(Arc::clone(&session));
        (session, async move { task.run(client).await })
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(*self.progress.borrow(), Progress::Open(_))
    }

    /// Whether nobody drives its task, as in a runtime that is kept and not entered.
    pub(super) fn is_stuck(&self, now: Instant) -> bool {
        self.lock().due < now
    }

    /// Ends it, and with it all watches. Once is enough.
    pub(super) fn end(&self, ending: Ending) {
        let mut state = self.lock();
        let Some(board) = state.board.take() else { return };
        let opened_at = state.opened_at;
        let last = self.progress.send_replace(Progress::Over);
        drop(state);
        drop(last);
        if let Some(shared) = self.shared.upgrade() {
            let open_for = opened_at.map(|at| Instant::now().saturating_duration_since(at));
            shared.ended(self, ending, open_for);
        }
        // Whoever hears of it may ask for a watch at once.
        drop(board);
    }

    /// Watches a record. It is read here, which tells the server that its changes are to be heard; a
    /// record that cannot be read is not watched, nor for a while one of which the server tells changes that are none.
    pub(super) async fn watch(self: &Arc<Self>, name: &str) -> Result<Option<KeyWatch>, Over> {
        if self.with_board(|board, now| board.rests(name, now)) == Some(true) {
            return Ok(None);
        }
        let connections = self.connections().await?;
        let mut looks = 0;
        loop {
            // On the board before the server is asked: its next words may be that the record has changed.
            let watch = self.join(name)?;
            let lock = tokio::select! {
                biased;
                () = self.over() => return Err(Over),
                lock = self.look(&connections, name) => lock?,
            };
            let seen = lock
                .as_ref()
                .and_then(|look| look.lock.as_ref())
                .map(|lock| (lock.fence, lock.expires_at));
            if let Some(seen) = seen
                && self.with_board(|board, now| board.saw(name, seen, now)) == Some(true)
            {
                return Ok(None);
            }
            match lock {
                None => return Ok(None),
                Some(look) if !watch.is_over() => {
                    return Ok(Some(match look.lock {
                        Some(_) if look.holder_polls => watch.that_is_locked_by_a_poller(),
                        Some(_) => watch.that_is_locked(),
                        None => watch,
                    }));
                }
                // It has changed since it was read.
                Some(_) => looks += 1,
            }
            if looks > 1 {
                // Others are busy with it.
                sleep(random_part(Self::PAUSE)).await;
            }
        }
    }

    fn join(self: &Arc<Self>, name: &str) -> Result<KeyWatch, Over> {
        let (signal, watch) = KeyWatch::new();
        let watcher = self.lock().board.as_mut().ok_or(Over)?.join(name, signal);
        let session = Arc::downgrade(self);
        Ok(watch.keeping(Membership { session, name: name.into(), watcher }))
    }

    /// What a record says; `None` if it makes no sense.
    async fn look(&self, connections: &Connections, name: &str) -> Result<Option<Look>, Over> {
        match lookup::at(connections, At::default(), name).await {
            Ok(answer) => {
                self.was_heard.store(true, Ordering::Relaxed);
                if !self.has_worked.swap(true, Ordering::Relaxed)
                    && let Some(shared) = self.shared.upgrade()
                {
                    shared.works();
                }
                let holder_polls = reply::lacks_holder(&answer);
                Ok(reply::found(answer, name).ok().map(|lock| Look { lock, holder_polls }))
            }
            Err(error) => {
                // Also where the server forbids it, or says that another node has the record.
                self.end(Ending::Failed(error));
                Err(Over)
            }
        }
    }

    /// Waits until it is open.
    async fn connections(&self) -> Result<Arc<Connections>, Over> {
        let mut progress = self.progress.subscribe();
        let progress = progress.wait_for(|now| !matches!(now, Progress::Opening)).await;
        match progress.as_deref() {
            Ok(Progress::Open(connections)) => Ok(Arc::clone(connections)),
            _ => Err(Over),
        }
    }

    async fn over(&self) {
        let mut progress = self.progress.subscribe();
        let _ = progress.wait_for(|now| matches!(now, Progress::Over)).await;
    }

    /// Opens the connection and serves it. The error is why it cannot go on.
    async fn serve(&self, client: Client) -> Result<Ending, LockError> {
        let changes = client.invalidation_rx();
        let open = open(&client, self.limits.command);
        let (connections, driver) =
            timeout(self.limits.opening, open).await.unwrap_or_else(|_| {
                Err(LockError::new(
                    ErrorCode::NetworkTimeout,
                    "a connection for signals was not ready in time",
                ))
            })?;
        let connections = Arc::new(connections);
        self.opened(&connections);
        tokio::select! {
            error = driver.ended() => Err(error),
            () = self.hear(changes) => Err(lost()),
            ending = self.look_after(&connections) => ending,
        }
    }

    fn opened(&self, connections: &Arc<Connections>) {
        let now = Instant::now();
        let mut state = self.lock();
        // It may have been ended meanwhile.
        if state.board.is_some() {
            state.opened_at = Some(now);
            state.due = now + Self::LOOK_AFTER + Self::GRACE;
            self.progress.send_replace(Progress::Open(Arc::clone(connections)));
        }
    }

    /// Passes on what the server says, until it will say nothing more.
    async fn hear(&self, mut changes: Receiver<Invalidation>) {
        loop {
            let change = changes.recv().await;
            self.was_heard.store(true, Ordering::Relaxed);
            match change {
                Ok(change) => {
                    for name in change.keys.iter().filter_map(|key| key.as_str()) {
                        let watches = self.with_board(|board, now| board.take(name, now));
                        drop(watches);
                    }
                }
                // Nobody knows what they were.
                Err(RecvError::Lagged(_)) => drop(self.with_board(Board::take_all)),
                Err(RecvError::Closed) => return,
            }
        }
    }

    /// Asks for a sign of life from time to time, while somebody watches.
    async fn look_after(&self, connections: &Connections) -> Result<Ending, LockError> {
        let patience = self.limits.command;
        loop {
            self.lock().due = Instant::now() + Self::LOOK_AFTER + Self::GRACE;
            sleep(Self::LOOK_AFTER).await;
            let now = Instant::now();
            let idle_since = self.lock().board.as_ref().and_then(Board::idle_since);
            if let Some(idle_since) = idle_since {
                if idle_since + Self::IDLE <= now {
                    return Ok(Ending::Idle);
                }
            } else if !self.was_heard.swap(false, Ordering::Relaxed) {
                self.lock().due = now + patience + Self::GRACE;
                connections.ask(At::default(), "PING", now + patience).await?;
            }
        }
    }

    /// Does something with the board, if the session is not over.
    fn with_board<T>(&self, work: impl FnOnce(&mut Board, Instant) -> T) -> Option<T> {
        self.lock().board.as_mut().map(|board| work(board, Instant::now()))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A look at a record.
struct Look {
    /// The live lock, if there is one.
    lock: Option<LockInfo>,
    /// Whether it was written without a holder.
    holder_polls: bool,
}

/// What drives a session. It may be dropped anywhere: the runtime may end.
struct Task(Arc<Session>);

impl Task {
    async fn run(self, client: Result<Client, LockError>) {
        let session = &self.0;
        let served = async { session.serve(client?).await };
        let ending = tokio::select! {
            biased;
            () = session.over() => return,
            served = served => served.unwrap_or_else(Ending::Failed),
        };
        session.end(ending);
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.end(Ending::NoRuntime);
    }
}

/// A watch is on the board for as long as somebody has it.
struct Membership {
    session: Weak<Session>,
    name: Box<str>,
    watcher: Watcher,
}

impl Drop for Membership {
    fn drop(&mut self) {
        if let Some(session) = self.session.upgrade() {
            session.with_board(|board, now| board.leave(&self.name, self.watcher, now));
        }
    }
}

/// The driver's task, which ends with this guard.
struct Driver(ConnectHandle);

impl Driver {
    /// Why it has ended, which it does with its connection.
    async fn ended(mut self) -> LockError {
        match (&mut self.0).await {
            Ok(Err(error)) => error::from_driver(&error, Stage::Asking),
            Ok(Ok(())) | Err(_) => lost(),
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Connects, and has the server tell of changes.
async fn open(client: &Client, command: Duration) -> Result<(Connections, Driver), LockError> {
    let mut driver = None;
    // Listening comes first, so that the outcome is not missed.
    let start = async { driver = Some(Driver(client.connect())) };
    let connected = tokio::join!(biased; client.wait_for_connect(), start).0;
    connected.map_err(|error| error::from_driver(&error, Stage::Connecting))?;
    let driver = driver.ok_or_else(lost)?;
    let connections = Connections::over(std::slice::from_ref(client), false, 1, command);
    connections.inspect(At::default(), "CLIENT", &["TRACKING", "ON"]).await?;
    Ok((connections, driver))
}

/// The runtime of a session stands still.
pub(super) fn not_driven() -> LockError {
    LockError::new(
        ErrorCode::ServiceUnavailable,
        "the runtime stands still in which the connection for signals was opened",
    )
}

fn lost() -> LockError {
    LockError::new(ErrorCode::ServiceUnavailable, "the connection for signals was lost")
}
