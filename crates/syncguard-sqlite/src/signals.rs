//! Signals: ends the watches of a key when the file shows that its lock is over.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;
use syncguard_core::Key;
use syncguard_core::contract::{KeySignal, KeyWatch};

use crate::clock::Clock;
use crate::open_files::OpenFiles;
use crate::store::Store;

/// The watched keys. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Watches(Arc<Mutex<HashMap<Key, Vec<KeySignal>>>>);

impl Watches {
    /// Adds a watch, which ends when the key's lock is over.
    pub(crate) fn add(&self, key: Key) -> KeyWatch {
        let (signal, watch) = KeyWatch::new();
        self.lock().entry(key).or_default().push(signal);
        watch
    }

    /// Removes the watches whose waiters have gone. Returns whether any are left.
    pub(crate) fn any_left(&self) -> bool {
        let mut keys = self.lock();
        keys.retain(|_, signals| {
            signals.retain(|signal| !signal.is_unheard());
            !signals.is_empty()
        });
        !keys.is_empty()
    }

    /// Ends the watches of locks that are over, if the file has changed since version `before`. Returns the
    /// current version.
    pub(crate) fn poll(
        &self,
        connection: &Connection,
        files: &OpenFiles,
        clock: &Clock,
        before: Option<i64>,
    ) -> Option<i64> {
        if !self.any_left() {
            return None;
        }
        let version = connection.query_row("PRAGMA data_version", [], |row| row.get(0)).ok();
        if version.is_some() && version == before {
            return version;
        }
        let store = Store(connection);
        let now = files.check().and_then(|_| clock.now());
        // If the file cannot be read, all watches end: the waiters ask and get the error.
        self.end_if(|key| {
            !now.as_ref().is_ok_and(|now| {
                store.by_key(key).is_ok_and(|held| held.is_some_and(|held| held.is_live(now)))
            })
        });
        version
    }

    /// Ends the watches of the keys for which `is_over` is true.
    fn end_if(&self, mut is_over: impl FnMut(&Key) -> bool) {
        // A signal is given when it is dropped.
        self.lock().retain(|key, _| !is_over(key));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Vec<KeySignal>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
