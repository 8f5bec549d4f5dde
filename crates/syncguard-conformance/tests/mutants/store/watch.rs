//! Signals of releases.

use syncguard_core::Key;
use syncguard_core::contract::KeySignal;

use super::{Store, Stored, is_live};
use crate::mutants::flaws::Flaw;

impl Store {
    /// Returns true if a watch reports the lock of this key as live.
    pub(crate) fn is_watched_lock_live(&self, key: &Key, now: u64) -> bool {
        let held = self.locks.get(&self.name(key));
        self.has(Flaw::says_that_what_it_watches_is_locked)
            || matches!(held, Some(Stored::Lock(lock))
                if is_live(self.flaw, lock.expires_at, now)
                    || self.has(Flaw::a_watch_takes_expired_locks_for_live))
    }

    /// Signals at the next release of the key.
    pub(crate) fn watch(&mut self, key: &Key, signal: KeySignal) {
        let name = self.name(key);
        self.watches.entry(name).or_default().push(signal);
    }

    /// Signals the release of the lock with this name, by dropping its signals.
    pub(super) fn signal(&mut self, name: &str) {
        if self.has(Flaw::never_signals) {
            return;
        }
        self.watches.remove(name);
        if self.has(Flaw::mixes_up_watches) {
            self.lost.extend(self.watches.drain().flat_map(|(_, signals)| signals));
        }
    }
}
