//! The state of the screen, and the changes that keys make to it.

use std::collections::HashMap;
use std::time::Duration;

use syncguard::contract::HashId;

use super::lock::Lock;
use super::turnover::Turnover;

/// The state of the screen.
#[derive(Default)]
pub(super) struct State {
    /// The URL of the store, without its password.
    pub(super) store: String,
    pub(super) prefix: String,
    pub(super) interval: Duration,
    pub(super) has_colors: bool,
    /// The locks of the last look that worked, sorted by key.
    pub(super) locks: Vec<Lock>,
    /// A message about records that cannot be read.
    pub(super) corrupt: Option<String>,
    /// Why the last look failed.
    pub(super) failure: Option<String>,
    /// `None` before the second look.
    pub(super) changes: Option<Changes>,
    pub(super) sort: Sort,
    pub(super) filter: String,
    /// The number of locks that are scrolled away above the first one on the screen.
    pub(super) scrolled: usize,
    /// The filter is being typed.
    pub(super) is_typing: bool,
    /// When the last look that worked was, as time since 1970.
    pub(super) looked_at: Option<Duration>,
    pub(super) turnover: Turnover,
}

/// The keys of the locks that came and went between the last two looks.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    pub(super) came: Vec<String>,
    pub(super) went: Vec<String>,
    /// Keys that another lock has now.
    pub(super) passed_on: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sort {
    /// The locks that need a person: first those that were not renewed, then those that are held longest.
    #[default]
    Need,
    Key,
    /// The oldest lock first.
    Age,
    /// The lock that ends next first.
    Left,
    Holder,
}

impl Sort {
    fn next(self) -> Self {
        match self {
            Self::Need => Self::Key,
            Self::Key => Self::Age,
            Self::Age => Self::Left,
            Self::Left => Self::Holder,
            Self::Holder => Self::Need,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Need => "need",
            Self::Key => "key",
            Self::Age => "age",
            Self::Left => "time left",
            Self::Holder => "holder",
        }
    }
}

/// A key that was pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pressed {
    Char(char),
    Enter,
    Backspace,
    Escape,
    /// So many locks up.
    Up(usize),
    /// So many locks down.
    Down(usize),
}

impl State {
    /// The most characters of a filter.
    const MAX_FILTER: usize = 128;

    /// Takes in the locks of a look, sorted by key.
    pub(super) fn look(&mut self, mut locks: Vec<Lock>, corrupt: Option<String>, now: Duration) {
        {
            let before: HashMap<HashId, &Lock> =
                self.locks.iter().map(|lock| (lock.id, lock)).collect();
            for lock in &mut locks {
                let left = lock.left(now);
                let known = before.get(&lock.id).map_or(Duration::ZERO, |old| old.longest_left);
                lock.longest_left = left.max(known);
                lock.is_late = left < lock.longest_left / 3;
                lock.grants_per_second = self.turnover.add(&lock.key, lock.id, lock.fence, now);
            }
        }
        self.turnover.forget_old(now);
        self.changes = self.looked_at.map(|_| Changes::between(&self.locks, &locks));
        (self.locks, self.corrupt, self.failure) = (locks, corrupt, None);
        self.looked_at = Some(now);
    }

    /// Takes in a look that failed: the locks of the last one stay.
    pub(super) fn fail(&mut self, message: String) {
        self.failure = Some(message);
    }

    /// Takes in a key. Returns whether the user wants to go on.
    pub(super) fn press(&mut self, pressed: Pressed) -> bool {
        if !matches!(pressed, Pressed::Up(_) | Pressed::Down(_)) {
            // The order or the filter may change.
            self.scrolled = 0;
        }
        match pressed {
            Pressed::Escape => {
                self.filter.clear();
                self.is_typing = false;
            }
            Pressed::Enter => self.is_typing = false,
            Pressed::Up(locks) => self.scrolled = self.above().saturating_sub(locks),
            Pressed::Down(locks) => {
                let last = self.count().saturating_sub(1);
                self.scrolled = self.scrolled.saturating_add(locks).min(last);
            }
            Pressed::Backspace if self.is_typing => {
                self.filter.pop();
            }
            Pressed::Char(char) if self.is_typing => {
                if self.filter.chars().count() < Self::MAX_FILTER && !char.is_control() {
                    self.filter.push(char);
                }
            }
            Pressed::Char('/') => self.is_typing = true,
            Pressed::Char('s') => self.sort = self.sort.next(),
            Pressed::Char('q') => return false,
            Pressed::Char(_) | Pressed::Backspace => {}
        }
        true
    }

    /// The number of locks above the first one on the screen, of those that the filter lets
    /// through.
    pub(super) fn above(&self) -> usize {
        self.scrolled.min(self.count().saturating_sub(1))
    }

    /// The number of locks that the filter lets through.
    pub(super) fn count(&self) -> usize {
        self.filtered().count()
    }

    /// The locks that the filter lets through, in their order.
    pub(super) fn shown(&self) -> Vec<&Lock> {
        let mut shown: Vec<&Lock> = self.filtered().collect();
        // Equal ones stay in the order of their keys.
        match self.sort {
            Sort::Need => shown.sort_by_key(|lock| (!lock.is_late, lock.acquired_at)),
            // Permit 2 comes before permit 10.
            Sort::Key => shown.sort_by(|a, b| a.recipe_and_part().cmp(&b.recipe_and_part())),
            Sort::Age => shown.sort_by_key(|lock| lock.acquired_at),
            Sort::Left => shown.sort_by_key(|lock| lock.expires_at),
            Sort::Holder => shown.sort_by(|a, b| a.holder.cmp(&b.holder)),
        }
        shown
    }

    /// The locks that the filter lets through, by key.
    fn filtered(&self) -> impl Iterator<Item = &Lock> {
        let filter = self.filter.to_lowercase();
        self.locks.iter().filter(move |lock| lock.contains(&filter))
    }
}

impl Changes {
    fn between(before: &[Lock], now: &[Lock]) -> Self {
        let mut changes = Self::default();
        let by_key = |locks: &[Lock]| -> HashMap<String, HashId> {
            locks.iter().map(|lock| (lock.key.clone(), lock.id)).collect()
        };
        let (old, new) = (by_key(before), by_key(now));
        for lock in now {
            match old.get(&lock.key) {
                None => changes.came.push(lock.name()),
                Some(id) if *id != lock.id => changes.passed_on.push(lock.name()),
                Some(_) => {}
            }
        }
        let went = before.iter().filter(|lock| !new.contains_key(&lock.key));
        changes.went.extend(went.map(Lock::name));
        changes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.came.is_empty() && self.went.is_empty() && self.passed_on.is_empty()
    }
}

#[cfg(test)]
mod tests;
