//! What the watches of a session and its task share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use syncguard_core::contract::KeyWatch;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::board::{Batch, Board, Watcher};

/// One connection on which signals are heard, from before it is opened until it is closed.
pub(super) struct Session {
    state: Mutex<State>,
    /// Rings for the task when there is something to do.
    bell: Notify,
}

struct State {
    /// `None` once the session is over.
    board: Option<Board>,
    stage: Stage,
    /// When the task must have said what it does next. If it has not, nobody drives it.
    due: Instant,
    /// How many keys can be watched.
    limit: usize,
    /// Whether the backend is still there.
    has_backend: bool,
}

/// How far a session has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Opening { since: Instant },
    Open,
    Over,
}

impl Session {
    /// Until the server has said how many locks it has room for.
    const FIRST_LIMIT: usize = 10_000;

    /// How late the task may be with what it does next.
    const GRACE: Duration = Duration::from_secs(5);

    /// A session whose task opens the connection until `due`.
    pub(super) fn new(due: Instant) -> Arc<Self> {
        let state = State {
            board: Some(Board::default()),
            stage: Stage::Opening { since: Instant::now() },
            due,
            limit: Self::FIRST_LIMIT,
            has_backend: true,
        };
        Arc::new(Self { state: Mutex::new(state), bell: Notify::new() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How far it has come. A session whose task nobody drives is over: its runtime stands still.
    pub(super) fn stage(&self, now: Instant) -> Stage {
        let state = self.state();
        let stage = if state.board.is_none() { Stage::Over } else { state.stage };
        let is_stuck = stage != Stage::Over && state.due + Self::GRACE < now;
        drop(state);
        if is_stuck {
            self.close();
            return Stage::Over;
        }
        stage
    }

    /// Begins to watch a key, if it can be. The receiver hears once it is watched, and ends without a word
    /// if it will not be.
    pub(super) fn join(self: &Arc<Self>, key: &str) -> Option<(KeyWatch, oneshot::Receiver<()>)> {
        let (signal, watch) = KeyWatch::new();
        let mut state = self.state();
        let limit = state.limit;
        let (watcher, watched) = state.board.as_mut()?.join(key, signal, limit)?;
        drop(state);
        self.bell.notify_one();
        let watching = Watching { session: Arc::clone(self), key: key.to_owned(), watcher };
        Some((watch.keeping(watching), watched))
    }

    /// The backend is gone: the session ends with its last watch.
    pub(super) fn backend_is_gone(&self) {
        self.state().has_backend = false;
        self.bell.notify_one();
    }

    /// The connection is open, and this many keys can be watched. If more wait for it, the watches of the
    /// others come to nothing.
    pub(super) fn is_open(&self, limit: usize) {
        let mut state = self.state();
        state.stage = Stage::Open;
        state.limit = limit;
        if let Some(board) = &mut state.board {
            board.shrink_to(limit);
        }
    }

    /// Whether the backend is gone, and the last watch.
    pub(super) fn is_forsaken(&self) -> bool {
        let state = self.state();
        !state.has_backend && state.board.as_ref().is_none_or(Board::is_idle)
    }

    /// Ends the session if nobody watches anything. Whether it is over.
    pub(super) fn closes_if_idle(&self) -> bool {
        let mut state = self.state();
        if state.board.as_ref().is_some_and(Board::is_idle) {
            state.board = None;
        }
        state.board.is_none()
    }

    /// Ends all watches, and takes no more.
    pub(super) fn close(&self) {
        let board = self.state().board.take();
        // Its signals are dropped outside of the lock.
        drop(board);
        self.bell.notify_one();
    }

    /// The task does something that is over by then.
    pub(super) fn is_busy_until(&self, due: Instant) {
        self.state().due = due;
    }

    /// Resolves when there may be something to do.
    pub(super) async fn has_news(&self) {
        self.bell.notified().await;
    }

    /// What the server is asked next; `None` if the session is over.
    pub(super) fn next_batch(&self) -> Option<Batch> {
        self.state().board.as_mut().map(Board::next_batch)
    }

    /// What the server has answered for the keys of a batch. Whether each of them is watched now.
    pub(super) fn answered(&self, answers: impl Iterator<Item = (String, i64, bool)>) -> bool {
        let mut state = self.state();
        let Some(board) = state.board.as_mut() else { return true };
        let mut all = true;
        for (key, number, is_held) in answers {
            board.answered(&key, number, is_held);
            all &= is_held;
        }
        all
    }

    /// The lock of the key with this number may be free.
    pub(super) fn signal(&self, number: i64) {
        if let Some(board) = &self.state().board {
            board.signal(number);
        }
    }
}

/// Ends a watch when it is dropped.
struct Watching {
    session: Arc<Session>,
    key: String,
    watcher: Watcher,
}

impl Drop for Watching {
    fn drop(&mut self) {
        if let Some(board) = &mut self.session.state().board {
            board.leave(&self.key, self.watcher);
        }
        self.session.bell.notify_one();
    }
}
