//! Readers and writers.

use std::collections::HashMap;
use std::time::Duration;

use super::found::Found;
use super::micros;
use crate::event::Moment;
use crate::invariant::Invariant;

/// For how long a use without an end is kept: its process was killed, or is stopped.
const KEPT: Duration = Duration::from_secs(60);

/// The uses of each key.
#[derive(Debug, Default)]
pub(super) struct Uses(HashMap<String, OfKey>);

#[derive(Debug, Default)]
struct OfKey {
    uses: Vec<Use>,
    /// The largest fences so far.
    written: u64,
    used: u64,
}

/// A read or a write, and until when it relies on the lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Use {
    pub(super) number: u64,
    pub(super) writes: bool,
    pub(super) fence: u64,
    pub(super) until: u64,
}

impl Uses {
    pub(super) fn relies(&mut self, key: &str, of: Use, at: Moment, found: &mut Found) {
        let now = at.steady;
        let mut broken = |what: String| {
            let what = format!("{key:?} at {at:?}: {} {what}", of.name());
            found.add(Invariant::WritersAreAlone, what, []);
        };
        let of_key = self.0.entry(key.to_owned()).or_default();
        let known = of_key.uses.len();
        of_key.uses.retain(|other| other.number != of.number);
        let is_new = known == of_key.uses.len();
        of_key.uses.retain(|other| now < other.until + micros(KEPT));
        if of.until <= now {
            return;
        }
        for other in of_key.uses.iter().filter(|other| now < other.until) {
            if of.writes || other.writes {
                broken(format!("beside {}", other.name()));
            }
        }
        if is_new && of.writes && of.fence <= of_key.used {
            broken(format!("after a use with the fence {}", of_key.used));
        }
        if is_new && of.fence < of_key.written {
            broken(format!("after a write with the fence {}", of_key.written));
        }
        of_key.used = of_key.used.max(of.fence);
        if of.writes {
            of_key.written = of_key.written.max(of.fence);
        }
        of_key.uses.push(of);
    }

    pub(super) fn retained(&self) -> usize {
        self.0.values().map(|of_key| of_key.uses.len()).sum()
    }
}

impl Use {
    fn name(&self) -> String {
        format!("a {} with the fence {}", if self.writes { "write" } else { "read" }, self.fence)
    }
}
