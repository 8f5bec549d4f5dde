//! The listing of locks and counters.

use syncguard_core::authoring::hash_key;
use syncguard_core::inventory::{FenceCounter, ListRequest, Page};
use syncguard_core::{Fence, Key, LockError, LockInfo};

use super::{Store, Stored, is_live, timestamp};
use crate::mutants::flaws::Flaw;
use crate::mutants::keys;

impl Store {
    pub(crate) fn list_locks(
        &mut self,
        request: &ListRequest,
        now: u64,
    ) -> Result<Page<LockInfo>, LockError> {
        let mut found: Vec<(String, Stored)> =
            self.locks.iter().map(|(name, lock)| (name.clone(), lock.clone())).collect();
        found.retain(|(name, lock)| match lock {
            Stored::Garbage => request.includes(keys::text(name)),
            Stored::Lock(lock) => {
                self.is_wanted(request, lock.key.expose()) && self.shows(lock, now)
            }
        });
        found.sort_by(|one, other| one.0.cmp(&other.0));
        let place = request.expose_place().unwrap_or_default();
        let behind = |name: &str| name > place;
        if self.has(Flaw::counts_places_instead_of_keys) {
            found.drain(..place.parse::<usize>().unwrap_or(0).min(found.len()));
        } else {
            found.retain(|(name, _)| behind(name));
        }
        let mut page = Page::new(None);
        let size = self.page_size(request);
        if found.len() > size && !self.has(Flaw::ends_a_listing_at_a_full_page) {
            page.next = Some(match self.flaw {
                Some(Flaw::counts_places_instead_of_keys) => {
                    request.behind((place.parse::<usize>().unwrap_or(0) + size).to_string())
                }
                _ => request.behind(found[size - 1].0.as_str()),
            });
        }
        found.truncate(size);
        for (number, (name, lock)) in found.into_iter().enumerate() {
            match lock {
                Stored::Garbage if self.has(Flaw::fails_a_listing_over_corrupt_records) => {
                    return Err(LockError::internal("a record is garbage"));
                }
                Stored::Garbage if self.has(Flaw::is_silent_about_corrupt_records) => {}
                Stored::Garbage => page.corrupt.push(hash_key(&name)),
                Stored::Lock(_) if self.has(Flaw::lists_some_locks_only) && number % 3 == 2 => {}
                Stored::Lock(mut lock) => {
                    if self.has(Flaw::a_listing_extends) {
                        lock.expires_at += 50;
                        self.locks.insert(name.clone(), Stored::Lock(lock.clone()));
                    }
                    let fence = if self.has(Flaw::lists_no_fences) { 0 } else { lock.fence };
                    let key = if self.has(Flaw::lists_the_stores_names) {
                        Key::new(name.chars().take(100).collect::<String>())?
                    } else {
                        lock.key
                    };
                    let info = LockInfo::new(
                        key,
                        lock.lock_id,
                        timestamp(lock.acquired_at)?,
                        timestamp(lock.expires_at)?,
                        Fence::new(fence)?,
                    );
                    let holder = lock.holder.filter(|_| !self.has(Flaw::lists_no_holders));
                    page.entries.push(info.with_holder(holder));
                }
            }
        }
        Ok(page)
    }

    pub(crate) fn list_counters(
        &self,
        request: &ListRequest,
    ) -> Result<Page<FenceCounter>, LockError> {
        let place = request.expose_place().unwrap_or_default();
        let mut found: Vec<_> = self
            .fences
            .iter()
            .filter(|(name, _)| request.includes(keys::text(name)) && name.as_str() > place)
            .filter(|(name, _)| {
                !self.has(Flaw::lists_counters_of_locked_keys_only)
                    || self.locks.contains_key(*name)
            })
            .collect();
        found.sort_unstable();
        let size = request.page_size();
        let last = found.get(size - 1).filter(|_| found.len() > size);
        let next = last.map(|(name, _)| request.behind(name.as_str()));
        found.truncate(size);
        let counter = |(name, last): (&String, &u64)| {
            Ok(FenceCounter::new(Key::new(keys::text(name))?, Fence::new(*last)?))
        };
        let mut page = Page::new(next);
        page.entries = found.into_iter().map(counter).collect::<Result<_, LockError>>()?;
        Ok(page)
    }

    pub(crate) fn fence_counter(&mut self, key: &Key) -> Result<Option<Fence>, LockError> {
        let name = self.counter(key);
        if self.has(Flaw::a_look_at_a_counter_counts) {
            self.fences.entry(name.clone()).and_modify(|last| *last += 1);
        }
        if self.has(Flaw::makes_counters_of_keys_never_locked) {
            self.fences.entry(name.clone()).or_insert(0);
        }
        self.fences.get(&name).map(|last| Fence::new(*last)).transpose()
    }

    pub(crate) fn raise(&mut self, key: &Key, at_least: Fence) -> Result<Fence, LockError> {
        let name = self.counter(key);
        let before = self.fences.get(&name).copied().unwrap_or(0);
        let mut raised = before.max(at_least.get());
        match self.flaw {
            Some(Flaw::a_raise_does_nothing) => return Ok(at_least),
            Some(Flaw::a_raise_says_what_it_was_asked) => {
                self.fences.insert(name, raised);
                return Ok(at_least);
            }
            Some(Flaw::a_raise_lowers) => raised = at_least.get(),
            Some(Flaw::a_raise_stops_below_the_end) => raised = raised.min(Fence::MAX.get() - 1),
            Some(Flaw::a_raise_touches_the_lock) => {
                let lock = self.name(key);
                if let Some(Stored::Lock(lock)) = self.locks.get_mut(&lock) {
                    lock.fence = raised;
                }
            }
            _ => {}
        }
        self.fences.insert(name, raised);
        Fence::new(raised)
    }

    /// Returns true if the listing has not continued from this place before.
    pub(crate) fn use_up(&mut self, place: &str) -> bool {
        let is_new = !self.used_places.iter().any(|used| used == place);
        self.used_places.push(place.to_owned());
        is_new
    }

    fn is_wanted(&self, request: &ListRequest, key: &str) -> bool {
        match self.flaw {
            Some(Flaw::ignores_prefixes) => true,
            Some(Flaw::takes_prefixes_for_patterns) => {
                let prefix = request.expose_prefix();
                let begin = prefix.split(['*', '%', '_', '?', '[']).next().unwrap_or(prefix);
                key.starts_with(begin)
            }
            _ => request.includes(key),
        }
    }

    fn shows(&self, lock: &super::Record, now: u64) -> bool {
        match self.flaw {
            Some(Flaw::lists_expired_locks) => true,
            Some(Flaw::lists_no_lock_in_its_tolerance) => lock.expires_at > now,
            flaw => is_live(flaw, lock.expires_at, now),
        }
    }

    fn page_size(&self, request: &ListRequest) -> usize {
        if self.has(Flaw::ignores_the_page_size) { usize::MAX } else { request.page_size() }
    }
}
