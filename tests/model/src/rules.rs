//! How large a model is, and what is wrong with it on purpose.

/// Ticks of time; in a world they count from now.
pub type Ticks = i8;

/// The sizes of a model, and the rule that it breaks.
///
/// The ticks stand for any times in the same order: a request is given up sooner than a lock lasts, and
/// the longest TTL is longer than the shortest one and the tolerance.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// How long locks live.
    pub ttl: Ticks,
    /// What an extend may ask for as well: less.
    pub short: Ticks,
    /// For how long an expired lock still counts as live.
    pub tolerance: Ticks,
    /// How long after the sending a store carries a request out at the latest.
    pub bound: Ticks,
    /// How far one client's clock is ahead of another's at the most. Only Firestore's locks live by them.
    pub drift: Ticks,
    /// How many acquisitions each client begins that end in a lock, or in doubt.
    pub acquisitions: u8,
    /// What happens at the most, in all.
    pub budget: Budget,
    /// How many of the clients are those of the TypeScript library. Only PostgreSQL has such.
    pub typescript: usize,
    /// Whether worlds that differ in nothing that matters are one: see `reduce.rs`.
    pub is_reduced: bool,
    /// The rule that is broken.
    pub flaw: Option<Flaw>,
}

/// What happens at the most, in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Budget {
    /// Extends.
    pub extends: u8,
    /// Requests that are given up: their reply is lost, or they are still on their way.
    pub lost: u8,
    /// Clients that end without a word.
    pub crashes: u8,
    /// Acquires of which a second copy is on its way (Redis: a cluster's driver sends them).
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

    /// Whether one of these is broken.
    pub(crate) fn has_any(&self, flaws: &[Flaw]) -> bool {
        self.flaw.is_some_and(|flaw| flaws.contains(&flaw))
    }

    /// For how long a lock of a crashed client may live: it was sent at the last moment, carried out at the
    /// last moment, and then it has its TTL. An extend may add the least that a time can be added.
    pub(crate) fn longest(&self) -> Ticks {
        self.bound + self.ttl + 1 + self.tolerance + self.drift
    }

    /// An expiry that was so long ago is over by every clock.
    pub(crate) fn expired(&self) -> Ticks {
        -(self.tolerance + self.drift)
    }
}

/// A rule of the design, broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// D18: the store does not look at a request's deadline.
    NoDeadline,
    /// D19: an extend applies whatever the lock's expiry is.
    BlindExtend,
    /// D19: an extend may leave the expiry, or the document, as it is.
    SameExpiry,
    /// D20: whoever finds no lock takes that for the end of the clean-up, whenever it is.
    SettledTooSoon,
    /// D20: what was given up is not cleaned up.
    NoCleanUp,
    /// D20: of what was sent twice, the clean-up is over with the first lock that it has released.
    ReleasedIsProof,
    /// D20: after the release, nobody thinks of the earlier sending of an acquire.
    ForgottenDoubt,
    /// D21, section 4: what a holder relies on is counted from the reply.
    PromiseFromReply,
    /// Where the backend has sent an acquire twice, the promise is counted from the second sending.
    PromiseFromLastSending,
    /// D19: while an extend's outcome is open, the holder relies on the later end.
    OptimisticExtend,
    /// D19: a holder forgets its earlier extends that have no answer.
    TrustsLastExtend,
    /// A release frees the key, whoever has it.
    ReleaseOfAnyone,
    /// A clean-up deletes what it has seen expired, without another look.
    UnguardedCleanUp,
    /// A clean-up deletes the fence counter as well.
    CounterCleanedUp,
    /// D10: an acquire that finds its own lock calls it somebody else's.
    NotIdempotent,
    /// D5: acquire decides by the row it has read without a lock, and writes whatever it has become.
    MissingRowLock,
    /// D5: extend takes no advisory lock, for which TypeScript's acquire relies on it. No guard shows it: when
    /// the extend commits that late, its holder has given the lock up. Who extends by hand has no guard.
    ExtendWithoutTurn,
    /// D4: the time is that of the transaction's start.
    StaleNow,
    /// The counter is moved wherever it stands, and not only from where it was seen.
    CounterNotCompared,
    /// One look is taken for proof that nothing of an acquire will come.
    OneLook,
    /// The clean-up does not ask whether somebody is in the middle of acquiring the key.
    NotAlone,
    /// D7: the commit's preconditions cover the lock, and not the counter.
    CounterUnguarded,
    /// D7: the commit's preconditions cover the counter, and not the lock.
    LockUnguarded,
    /// A release deletes the document in whatever version.
    ReleaseUnguarded,
    /// The clean-up of an acquire does not move the counter on.
    CounterLeftAlone,
    /// No tolerance: expired is free.
    NoTolerance,
}
