//! The job of a child process, and its answer.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use syncguard_core::Jitter;

/// The work of a child.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Job {
    Contest(Contest),
    /// Takes the locks of these keys and dies.
    Hold(Vec<String>),
}

/// Waiters of one process that want the same keys repeatedly.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Contest {
    pub(crate) way: Way,
    pub(crate) waiters: usize,
    /// How far the process is from the store, in one direction.
    pub(crate) latency: Duration,
    /// One of them for each turn.
    pub(crate) keys: Vec<String>,
    /// The work of each holder.
    pub(crate) work: Spread,
    /// The rest of each waiter after its turn.
    pub(crate) rest: Spread,
    /// The time in which new waits begin.
    pub(crate) time: Duration,
}

/// A time that is chosen at random.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Spread {
    pub(crate) least: Duration,
    pub(crate) most: Duration,
}

impl Spread {
    pub(crate) const fn millis(least: u64, most: u64) -> Self {
        Self { least: Duration::from_millis(least), most: Duration::from_millis(most) }
    }

    pub(crate) fn any(self) -> Duration {
        self.least + Jitter::Full.of(self.most - self.least)
    }
}

/// With which lock.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) enum Way {
    /// Ours, with the defaults.
    #[default]
    Ours,
    /// The TypeScript library, or a client of ours with its pauses and records.
    TypeScript,
}

/// The results of a contest in one process.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) turns: Vec<Turn>,
    /// The number of each error.
    pub(crate) failures: BTreeMap<String, u64>,
}

/// A lock that was waited for, held, and given back: ns of the shared clock.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Turn {
    /// The number of the key.
    pub(crate) key: usize,
    pub(crate) requested: u64,
    pub(crate) granted: u64,
    pub(crate) release_begun: u64,
}
