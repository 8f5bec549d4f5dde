//! Who waits for which key: told when its lock is over in the file.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use syncguard_core::Key;
use syncguard_core::contract::{KeySignal, KeyWatch};

/// The keys that somebody waits for. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Watches(Arc<Mutex<HashMap<Key, Vec<KeySignal>>>>);

impl Watches {
    /// A watch that ends when the key's lock is over.
    pub(crate) fn add(&self, key: Key) -> KeyWatch {
        let (signal, watch) = KeyWatch::new();
        self.lock().entry(key).or_default().push(signal);
        watch
    }

    /// Forgets those that nobody hears any more. Whether any are left.
    pub(crate) fn are_heard(&self) -> bool {
        let mut keys = self.lock();
        keys.retain(|_, signals| {
            signals.retain(|signal| !signal.is_unheard());
            !signals.is_empty()
        });
        !keys.is_empty()
    }

    /// Ends the watches of each key of which this is so.
    pub(crate) fn end_if(&self, mut is_over: impl FnMut(&Key) -> bool) {
        // Dropped, a signal is given.
        self.lock().retain(|key, _| !is_over(key));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Vec<KeySignal>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
