//! What can be wrong on purpose.

use clap::ValueEnum;
use syncguard_history::Invariant;

use crate::plan::Store;

/// A flaw. Which code is flawed is said by each: the store's twin, the backend's twin, or a flawed copy of a
/// user. The library itself is never flawed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Flaw {
    /// The store now and then grants a lock that somebody else holds.
    SecondHolder,
    /// The store grants a lock as soon as the last one has expired.
    NoTolerance,
    /// The store now and then grants a fence for the second time.
    RepeatedFence,
    /// The store releases as often as one likes.
    EndlessRelease,
    /// The store revives what has expired or was released.
    Undead,
    /// The register takes any fence.
    UnfencedRegister,
    /// The store now and then says that it has released a lock, and has not.
    Orphans,
    /// A lock lives for a minute longer than it should.
    LongLife,
    /// The server serves nobody for three seconds after a fault.
    SlowRecovery,
    /// Each member leaves a task behind.
    LeakedTask,
    /// Recipes: one member counts a semaphore's permits and one more. A flawed user.
    OnePermitMore,
    /// Recipes: a leader that does not renew, and hears of the end of its term when it is over. A flawed
    /// copy of an election.
    DeafLeader,
    /// The queue: a waiter that goes away keeps its turn. A flawed copy of the queue, before the backend.
    KeptTurn,
    /// The queue: a turn is passed on with the lock and its fence. A flawed copy of the queue, before the
    /// backend.
    SharedGrant,
    /// D18: the store carries out what arrives after its deadline.
    LateRequests,
    /// D19: the store extends whatever expiry was expected.
    BlindExtends,
    /// D20: the backend takes the first "not held" for the end of a clean-up.
    SettledTooSoon,
    /// D21: a user of the bare backend begins its work with a grant whose time is over.
    StaleGrant,
    /// D7, Firestore: the commit that takes a lock states the version of the lock, and not that of the counter.
    UncheckedCounter,
    /// Firestore: a clean-up deletes the lock in whatever version it is by then.
    UncheckedCleanUp,
    /// Firestore: a release does.
    UncheckedRelease,
    /// Firestore: for its clients a lock is over as soon as it has expired, by each one's clock.
    HastyClients,
    /// D20, Firestore: a clean-up that finds no lock leaves the counter where it was, so that the commit is
    /// good if it comes after all.
    UnmovedCounter,
    /// D19, Firestore: an extend states neither the version nor the expiry that it knows.
    UncheckedExtend,
    /// D5, PostgreSQL: acquire decides by the row that its snapshot shows, and overwrites what it has become.
    MissingRowLock,
    /// D4, PostgreSQL: the time is that of the statement's start, before all waiting.
    StaleNow,
    /// PostgreSQL: an extend does not lock the row, and writes all of it: a lock that was released meanwhile
    /// comes back.
    UpsertingExtend,
    /// D20, PostgreSQL: after a release, nobody thinks of the first sending of an acquire that was sent twice.
    ForgottenSending,
    /// D20, PostgreSQL: a clean-up does not ask whether somebody is in the middle of acquiring the key.
    NotAlone,
}

impl Flaw {
    /// All of them.
    #[must_use]
    pub fn all() -> &'static [Self] {
        Self::value_variants()
    }

    /// Which invariants find it, in the run of a minute.
    #[must_use]
    pub fn breaks(self) -> &'static [Invariant] {
        use Invariant as I;
        match self {
            Self::SecondHolder => &[I::HoldersTakeTurns],
            Self::NoTolerance => &[I::LocksTakeTurns],
            Self::RepeatedFence | Self::SharedGrant | Self::UncheckedCounter => &[I::FencesGrow],
            Self::EndlessRelease => &[I::ReleasedOnce],
            Self::Undead => &[I::OverForGood],
            Self::UnfencedRegister => &[I::NoLostUpdate],
            Self::Orphans | Self::LongLife | Self::SlowRecovery | Self::LateRequests => {
                &[I::BackInTime]
            }
            Self::LeakedTask | Self::KeptTurn => &[I::NothingLeft],
            _ if self.leaves_orphans() => &[I::NothingLeft],
            Self::OnePermitMore => &[I::PermitsAreCounted],
            Self::DeafLeader | Self::StaleGrant => &[I::ToldInTime],
            _ => &[I::HoldersTakeTurns, I::LocksTakeTurns],
        }
    }

    /// On which store it is planted.
    #[must_use]
    pub fn store(self) -> Store {
        match self {
            // Where requests may arrive twice, they matter most.
            Self::SettledTooSoon => Store::RedisCluster,
            Self::UncheckedCounter
            | Self::UncheckedCleanUp
            | Self::UncheckedRelease
            | Self::HastyClients
            | Self::UnmovedCounter
            | Self::UncheckedExtend => Store::Firestore,
            Self::MissingRowLock
            | Self::StaleNow
            | Self::UpsertingExtend
            | Self::ForgottenSending
            | Self::NotAlone => Store::Postgres,
            _ => Store::Redis,
        }
    }

    /// Whether all that it does is to leave a lock behind that nobody has.
    pub(crate) fn leaves_orphans(self) -> bool {
        matches!(
            self,
            Self::SettledTooSoon
                | Self::UnmovedCounter
                | Self::StaleNow
                | Self::UpsertingExtend
                | Self::ForgottenSending
                | Self::NotAlone
        )
    }

    /// Whether it shows only where statements of PostgreSQL wait for each other.
    pub(crate) fn needs_slow_steps(self) -> bool {
        matches!(
            self,
            Self::MissingRowLock | Self::StaleNow | Self::UpsertingExtend | Self::NotAlone
        )
    }
}
