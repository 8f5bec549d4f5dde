//! The requests of the processes of a fleet, and the answers of lookups.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, Result, bail, ensure};
use syncguard::contract::{HashId, Holder};
use syncguard::{LockId, LockInfo};

/// The locks by the hash of their id.
#[derive(Default)]
pub(super) struct Books {
    asked: Mutex<HashMap<HashId, Asked>>,
    labelled: AtomicUsize,
    /// Lookups of a lock whose label the store did not keep.
    hidden: AtomicUsize,
    unlabelled: AtomicUsize,
}

/// A lock that a process asks for.
struct Asked {
    key: &'static str,
    holder: Option<Holder>,
    /// False if the store may not have kept the holder.
    is_kept: bool,
    /// The fence that the process got.
    granted: Option<u64>,
    /// The fence that a lookup has shown.
    shown: Option<u64>,
}

impl Books {
    /// Before the request is sent. `is_kept` says whether the store keeps the holder in any case.
    pub(super) fn ask(
        &self,
        lock_id: LockId,
        key: &'static str,
        holder: Option<Holder>,
        is_kept: bool,
    ) {
        let asked = Asked { key, holder, is_kept, granted: None, shown: None };
        self.asked().insert(lock_id.hash_id(), asked);
    }

    /// The answer was no.
    pub(super) fn forget(&self, lock_id: LockId) {
        self.asked().remove(&lock_id.hash_id());
    }

    pub(super) fn grant(&self, lock_id: LockId, fence: u64) {
        if let Some(asked) = self.asked().get_mut(&lock_id.hash_id()) {
            asked.granted = Some(fence);
        }
    }

    /// Checks what a lookup shows. `is_new` says whether the process that looks can see all holders that are kept.
    pub(super) fn look(&self, info: &LockInfo, is_new: bool) -> Result<()> {
        let mut all = self.asked();
        let asked = all.get_mut(&info.lock_id_hash()).context("a lock that nobody asked for")?;
        let key = info.clone().expose().key;
        ensure!(key.expose() == asked.key, "the key of another lock");
        let fence = info.fence.get();
        let before = asked.shown.replace(fence).or(asked.granted).unwrap_or(fence);
        ensure!(before == fence, "a lock with the fences {before} and {fence}");
        let count = match sight(info.holder.as_ref(), asked.holder.as_ref())? {
            Sight::None => &self.unlabelled,
            Sight::Right => &self.labelled,
            Sight::Missing => {
                ensure!(!(asked.is_kept && is_new), "{:?} is not shown", asked.holder);
                &self.hidden
            }
        };
        count.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Checks a run as a whole. `hides` says whether some labels must have been hidden.
    pub(super) fn check(&self, hides: bool) -> Result<String> {
        let all = self.asked();
        for asked in all.values() {
            let wrong = asked.shown.filter(|shown| asked.granted != Some(*shown));
            ensure!(wrong.is_none(), "a lock of {:?} was seen with {wrong:?}", asked.granted);
        }
        let seen = |has_holder: bool| {
            let of_kind = all.values().filter(|asked| asked.holder.is_some() == has_holder);
            of_kind.filter(|asked| asked.shown.is_some()).count()
        };
        let [labelled, hidden, unlabelled] = [&self.labelled, &self.hidden, &self.unlabelled]
            .map(|count| count.load(Ordering::Relaxed));
        ensure!(labelled > 0 && unlabelled > 0, "{labelled} with a label, {unlabelled} without");
        ensure!(!hides || hidden > 0, "no lock was seen before the migration");
        Ok(format!(
            "{} locks; seen: {} with and {} without a label; {labelled} lookups showed the right label, {hidden} showed \
             none because it was not kept, {unlabelled} showed none because there was none",
            all.len(),
            seen(true),
            seen(false)
        ))
    }

    fn asked(&self) -> MutexGuard<'_, HashMap<HashId, Asked>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The holder that a lookup shows, compared with that of the lock.
#[derive(Debug, PartialEq, Eq)]
enum Sight {
    Right,
    Missing,
    None,
}

fn sight(shown: Option<&Holder>, own: Option<&Holder>) -> Result<Sight> {
    match (shown, own) {
        (None, None) => Ok(Sight::None),
        (None, Some(_)) => Ok(Sight::Missing),
        (Some(shown), Some(own)) if shown == own => Ok(Sight::Right),
        (Some(shown), own) => bail!("a lock with the holder {own:?} shows {shown:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_label_of_another_lock_is_noticed() {
        let holder = |label: &str| Holder::new(label).unwrap().with_note("a note").unwrap();
        let (own, other) = (holder("lock 1"), holder("lock 2"));
        let without_note = Holder::new("lock 1").unwrap();
        assert_eq!(sight(Some(&own), Some(&own)).unwrap(), Sight::Right);
        assert_eq!(sight(None, Some(&own)).unwrap(), Sight::Missing);
        assert_eq!(sight(None, None).unwrap(), Sight::None);
        for (shown, own) in [(&other, Some(&own)), (&other, None), (&without_note, Some(&own))] {
            assert!(sight(Some(shown), own).is_err(), "{shown:?} for {own:?}");
        }
    }
}
