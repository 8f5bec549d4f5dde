//! The size of a model, and the rule that it breaks on purpose.

/// Ticks of time; in a world they count from now.
pub type Ticks = i8;

/// The sizes of a model, and the rule that it breaks.
///
/// The ticks stand for any times in the same order: a request is given up sooner than a lock expires, and the longest
/// TTL is longer than the shortest one and the tolerance.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// The TTL of locks.
    pub ttl: Ticks,
    /// A shorter TTL that an extend may ask for.
    pub short: Ticks,
    /// How long an expired lock still counts as live.
    pub tolerance: Ticks,
    /// The latest time after the sending at which a store carries a request out.
    pub bound: Ticks,
    /// The largest difference of clients' clocks. Only Firestore's locks depend on them.
    pub drift: Ticks,
    /// The number of acquisitions of each client that end in a lock, or in doubt.
    pub acquisitions: u8,
    /// The limits of events, in all.
    pub budget: Budget,
    /// The number of clients of the TypeScript library, only on PostgreSQL.
    pub typescript: usize,
    /// True if all acquires ask for the key's first fence, as processes do for one tick.
    pub is_one_tick: bool,
    /// True if equivalent worlds are merged: see `reduce.rs`.
    pub is_reduced: bool,
    /// The rule that is broken.
    pub flaw: Option<Flaw>,
}

/// The limits of events, in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Budget {
    /// Extends.
    pub extends: u8,
    /// Requests that are given up: their reply is lost, or they are still on the network.
    pub lost: u8,
    /// Clients that crash.
    pub crashes: u8,
    /// Acquires with a second copy on the network (Redis: a cluster's driver sends them).
    pub copies: u8,
    /// Clean-ups of expired records.
    pub cleanings: u8,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            ttl: 3,
            short: 1,
            tolerance: 1,
            bound: 1,
            drift: 0,
            acquisitions: 2,
            budget: Budget { extends: 2, lost: 1, crashes: 1, copies: 0, cleanings: 1 },
            typescript: 0,
            is_one_tick: false,
            is_reduced: true,
            flaw: None,
        }
    }
}

impl Rules {
    /// These sizes, with a rule broken.
    #[must_use]
    pub fn with(self, flaw: Flaw) -> Self {
        Self { flaw: Some(flaw), ..self }
    }

    pub(crate) fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// Returns true if one of these rules is broken.
    pub(crate) fn has_any(&self, flaws: &[Flaw]) -> bool {
        self.flaw.is_some_and(|flaw| flaws.contains(&flaw))
    }

    /// How long a lock of a crashed client may live: it was sent at the last moment, carried out at the last moment,
    /// and then has its TTL. An extend may add the smallest step of time.
    pub(crate) fn longest(&self) -> Ticks {
        self.bound + self.ttl + 1 + self.tolerance + self.drift
    }

    /// The fence window of a tick is used up when the counter is there. `contract::FenceWindow::refuses_counter`.
    pub(crate) fn is_taken(&self, counter: u8) -> bool {
        self.is_one_tick && counter >= 1 && !self.has(Flaw::WindowIgnored)
    }

    /// A lock with this expiry is over by every clock.
    pub(crate) fn expired(&self) -> Ticks {
        -(self.tolerance + self.drift)
    }
}

/// A rule of the design, broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// D18: the store ignores a request's deadline.
    NoDeadline,
    /// D19: an extend applies to any expiry.
    BlindExtend,
    /// D19: an extend may leave the expiry, or the document, as it is.
    SameExpiry,
    /// D20: a clean-up that finds no lock ends at any time.
    SettledTooSoon,
    /// D20: an acquire that was given up is not cleaned up.
    NoCleanUp,
    /// D20: after an acquire that was sent twice, the clean-up ends with the first lock that it has released.
    ReleasedIsProof,
    /// D20: after the release, the backend ignores the earlier sending of an acquire.
    ForgottenDoubt,
    /// D21, section 4: a holder's time is counted from the reply.
    PromiseFromReply,
    /// If the backend has sent an acquire twice, the holder's time is counted from the second sending.
    PromiseFromLastSending,
    /// D19: while an extend's outcome is open, the holder relies on the later end.
    OptimisticExtend,
    /// D19: a holder forgets its earlier extends that have no answer.
    TrustsLastExtend,
    /// A release frees the key of any holder.
    ReleaseOfAnyone,
    /// A clean-up deletes a record that it has seen expired, without another look.
    UnguardedCleanUp,
    /// A clean-up deletes the fence counter as well.
    CounterCleanedUp,
    /// D10: an acquire that finds its own lock reports it as another caller's.
    NotIdempotent,
    /// D5: acquire decides by the row that it has read without a lock, and overwrites its current state.
    MissingRowLock,
    /// D5: extend takes no advisory lock, on which TypeScript's acquire relies. No guard shows this: when the extend
    /// commits that late, its holder has given up the lock. A caller that extends without a guard does.
    ExtendWithoutTurn,
    /// D4: the time is that of the transaction's start.
    StaleNow,
    /// The counter is moved from any value, and not only from the value that was seen.
    CounterNotCompared,
    /// One look counts as proof that the acquire will not arrive.
    OneLook,
    /// The clean-up does not check for a running acquire of the key.
    NotAlone,
    /// D7: the commit's preconditions cover the lock, and not the counter.
    CounterUnguarded,
    /// D7: the commit's preconditions cover the counter, and not the lock.
    LockUnguarded,
    /// A release deletes the document in any version.
    ReleaseUnguarded,
    /// The clean-up of an acquire does not move the counter on.
    CounterLeftAlone,
    /// An acquire takes any fence, although it has asked for the first one.
    WindowIgnored,
    /// No tolerance: expired is free.
    NoTolerance,
}
