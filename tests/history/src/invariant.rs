//! The twelve invariants, and their violations.

use std::fmt;
use std::time::Duration;

use crate::operation::Operation;

/// The rules that must hold in spite of all faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Invariant {
    /// 1: the times for which the holders of a key rely on it do not overlap.
    HoldersTakeTurns = 1,
    /// 2: by the store's clock, the lives of one key's locks do not overlap.
    LocksTakeTurns = 2,
    /// 3: the fences of a key are unique and grow in real-time order.
    FencesGrow = 3,
    /// 4: at most one release of a lock id succeeds.
    ReleasedOnce = 4,
    /// 5: a lock id that is over stays over.
    OverForGood = 5,
    /// 6: a register that rejects lower fences loses no update.
    NoLostUpdate = 6,
    /// 7: an orphan is free in time, and service is back in time after a fault.
    BackInTime = 7,
    /// 8: after all work has ended, nothing is left.
    NothingLeft = 8,
    /// 9: by the holders' own clocks, a semaphore never has more holders than permits.
    PermitsAreCounted = 9,
    /// 10: the work of a leader is told to stop before its time is over.
    ToldInTime = 10,
    /// 11: an attempt of a tick starts once, no tick has more attempts than it may have, and none starts before its
    /// time.
    TicksStartOnce = 11,
    /// 12: nobody reads or writes beside a writer, by their own clocks. A write has a larger fence than all uses before it,
    /// and a read no smaller one than all writes before it.
    WritersAreAlone = 12,
}

/// Time limits, and the errors of measurement.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The largest difference between the store's clock and ours, for comparisons of the two.
    pub clocks: Duration,
    /// The largest difference between the clocks that locks live by; zero if the store has one clock.
    pub drift: Duration,
    /// How long after the end of its caller an acquire may still be carried out.
    pub in_flight: Duration,
    /// How long after expiry and tolerance a lock may still be seen.
    pub orphan: Duration,
    /// How long a fault may interrupt the service after its end.
    pub outage: Duration,
    /// How long after its call a granted acquire may be carried out once more, because its backend had sent it twice.
    /// Its lock has no owner and is given back. Zero if nothing is sent twice.
    pub resent: Duration,
    /// Whether a backend tries an extend again after an attempt without an answer. The answer is that of the last
    /// attempt, and an earlier one may have been carried out.
    pub retried_extends: bool,
}

impl Limits {
    /// The limits of the specification, for a store on this machine.
    #[must_use]
    pub fn new() -> Self {
        Self {
            clocks: Duration::from_millis(20),
            drift: Duration::ZERO,
            in_flight: Duration::from_secs(4),
            orphan: Duration::from_millis(500),
            outage: Duration::from_secs(2),
            resent: Duration::ZERO,
            retried_extends: false,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::new()
    }
}

/// A broken invariant, with the operations that prove it.
#[derive(Clone, Debug)]
pub struct Violation {
    pub invariant: Invariant,
    pub what: String,
    /// The calls and answers that prove it.
    pub proof: Vec<Operation>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invariant {} ({:?}): {}", self.invariant as u8, self.invariant, self.what)?;
        for Operation { process, number, call, called, answered } in &self.proof {
            write!(f, "\n  {process}#{number} {called:?} {call:?} -> ")?;
            match answered {
                Some((at, answer)) => write!(f, "{at:?} {answer:?}")?,
                None => write!(f, "no answer")?,
            }
        }
        Ok(())
    }
}
