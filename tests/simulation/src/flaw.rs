//! The planted flaws.

use std::path::Path;

use clap::ValueEnum;
use syncguard_history::Invariant;

use crate::plan::{Store, name_of};
use crate::redis::Patch;

/// The flaws that are a change of the library's code. Each is in a file of its name.
const PATCHES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/patches");

/// A flaw. Some are in the scripts of Redis, some in the simulated statements of PostgreSQL, some on the simulated network,
/// some in a flawed copy of a user, and some are patches of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Flaw {
    /// The store sometimes grants a lock that another caller holds.
    SecondHolder,
    /// The store grants a lock as soon as the last one has expired.
    NoTolerance,
    /// The store sometimes grants a fence for the second time.
    RepeatedFence,
    /// The store releases a lock any number of times.
    EndlessRelease,
    /// The store revives locks that have expired or were released.
    Undead,
    /// The register takes any fence.
    UnfencedRegister,
    /// The store sometimes confirms a release that it has not carried out.
    Orphans,
    /// A lock lives for a minute longer than it should.
    LongLife,
    /// The server answers no request for three seconds after a fault.
    SlowRecovery,
    /// Each member leaves a task behind.
    LeakedTask,
    /// Ticks: the store grants locks in windows that are used up.
    EndlessWindow,
    /// Ticks: the store grants locks in windows before their time.
    EarlyWindow,
    /// Ticks, PostgreSQL: acquire checks the window by the counter in its snapshot, and overwrites its current state.
    StaleWindow,
    /// Recipes: one member uses one permit more than the semaphore has. A flawed user.
    OnePermitMore,
    /// Readers and writers: a writer takes all slots but the first. A patch of the recipe, as the next two.
    SkippedSlot,
    /// Readers and writers: a process gives the gate back before it has a slot.
    HastyReader,
    /// Readers and writers: a process keeps its slot after its last reader.
    KeptSlot,
    /// Recipes: a leader does not renew, and learns of the end of its term when it is over. A flawed copy of an
    /// election.
    DeafLeader,
    /// The queue: a waiter that goes away keeps its turn. A flawed copy of the queue, in front of the backend.
    KeptTurn,
    /// The queue: a turn is passed on with the lock and its fence. A flawed copy of the queue, in front of the
    /// backend.
    SharedGrant,
    /// The store carries out requests after their deadline.
    LateRequests,
    /// The store extends a lock with any expected expiry.
    BlindExtends,
    /// Redis cluster: the driver does not tell that it has sent a release twice, so the "not held" of the second copy counts.
    ForgottenCopy,
    /// The first "not held" for a lock id is the last word: a clean-up that looks again finds nothing.
    SettledTooSoon,
    /// A user of the bare backend begins its work with a grant whose time is over.
    StaleGrant,
    /// Firestore, etcd: an acquire states the version of the lock, and not that of the counter; object store: some acquires state
    /// nothing. On the wire.
    UncheckedCounter,
    /// Firestore, etcd: a clean-up deletes the lock in any version.
    UncheckedCleanUp,
    /// Firestore, etcd, object store: a lock is deleted in any version. On the wire, as the next three.
    UncheckedRelease,
    /// Firestore, etcd: a lock is over for others as soon as it has expired. A patch of the library.
    HastyClients,
    /// Firestore, etcd: a clean-up that finds no lock leaves the counter as it was, so a late acquire still succeeds.
    UnmovedCounter,
    /// Firestore, etcd: an extend does not state the version that it knows.
    UncheckedExtend,
    /// etcd: the members tell no time, so that locks go by the wall clocks of the processes. On the wire, as the next two.
    WallTime,
    /// etcd: a process asks one member for its time, and not a majority.
    NoMajority,
    /// etcd: the earliest bound of the store's time is where the latest one should be, and the other way round.
    SwappedBounds,
    /// etcd: the library does not count the time for which the machine was asleep.
    AwakeTime,
    /// Firestore, etcd: after an unknown sending the backend answers "busy" at once, and cleans up later, when the caller may have the
    /// lock by another try.
    SettledLater,
    /// PostgreSQL: acquire decides by the row in its snapshot, and overwrites its current state.
    MissingRowLock,
    /// PostgreSQL: the time is that of the statement's start, before all waits.
    StaleNow,
    /// PostgreSQL: an extend does not lock the row, and writes all of it, so a lock that was released meanwhile comes
    /// back.
    UpsertingExtend,
    /// PostgreSQL: an extend is carried out once more later, as if it was sent again after a lost connection.
    ResentExtends,
    /// PostgreSQL: a clean-up finds no lock that was released before, so the late sending of an acquire that was sent twice
    /// keeps its lock.
    ForgottenSending,
    /// PostgreSQL: a clean-up does not check for a running acquire of the key.
    NotAlone,
    /// PostgreSQL: a clean-up that found no lock does not look again after the deadline.
    OneLook,
}

impl Flaw {
    /// All flaws.
    #[must_use]
    pub fn all() -> &'static [Self] {
        Self::value_variants()
    }

    /// The invariants that find the flaw in a run of a minute.
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
            Self::LeakedTask | Self::KeptTurn | Self::KeptSlot => &[I::NothingLeft],
            Self::SkippedSlot | Self::HastyReader => &[I::WritersAreAlone],
            _ if self.leaves_orphans() => &[I::NothingLeft],
            Self::OnePermitMore => &[I::PermitsAreCounted],
            _ if self.starts_ticks_twice() => &[I::TicksStartOnce],
            Self::DeafLeader | Self::StaleGrant => &[I::ToldInTime],
            _ => &[I::HoldersTakeTurns, I::LocksTakeTurns],
        }
    }

    /// True if the flaw is a patch of the library, for `cargo xtask flaws`.
    #[must_use]
    pub fn is_patch(self) -> bool {
        Path::new(PATCHES).join(name_of(&self)).with_extension("patch").exists()
    }

    /// The flaw as a change of the scripts of Redis.
    #[must_use]
    pub fn patches(self) -> Vec<Patch> {
        match self {
            Self::SecondHolder => vec![(
                "if held then\n",
                "FLAW = (FLAW or 0) + 1\nif held and FLAW % 50 ~= 0 then\n",
            )],
            Self::NoTolerance => vec![("expires + TOLERANCE > time", "expires > time")],
            Self::RepeatedFence => vec![(
                "local fence = call('INCR', KEYS[2])",
                "FLAW = (FLAW or 0) + 1\nlocal fence = call('INCR', KEYS[2])\n\
                 if FLAW % 50 == 0 and fence > 1 then fence = call('DECR', KEYS[2]) end",
            )],
            Self::EndlessRelease => vec![
                (
                    "local name, refusal = get(KEYS[1])\nif not name then\n  return refusal or { NOT_FOUND, time }",
                    "FLAW = FLAW or {}\nlocal name, refusal = get(KEYS[1])\nif not name then\n  \
                 if #ARGV == 2 and FLAW[KEYS[1]] then return 1 end\n  return refusal or { NOT_FOUND, time }",
                ),
                (
                    "redis.call('DEL', name, KEYS[1])",
                    "FLAW = FLAW or {}\nFLAW[KEYS[1]] = true\nredis.call('DEL', name, KEYS[1])",
                ),
            ],
            Self::Undead => vec![(
                "if not name then\n  return refusal or { NOT_FOUND, time }",
                "FLAW = (FLAW or 0) + 1\nif not name then\n  \
                 if #ARGV == 4 and FLAW % 3 == 0 then return time + ARGV[3] - TOLERANCE end\n  \
                 return refusal or { NOT_FOUND, time }",
            )],
            Self::Orphans => vec![(
                "redis.call('DEL', name, KEYS[1])",
                "FLAW = (FLAW or 0) + 1\nif FLAW % 20 ~= 0 then redis.call('DEL', name, KEYS[1]) end",
            )],
            Self::LongLife => vec![
                (
                    "local expires = time + ARGV[2] - 1000 .. ''",
                    "FLAW = (FLAW or 0) + 1\nlocal long = FLAW % 20 == 0 and 60000 or 0\n\
                     local granted = time + ARGV[2] - 1000 .. ''\n\
                     local expires = time + ARGV[2] - 1000 + long .. ''",
                ),
                (
                    "'PX', ARGV[2])\n      return string.sub(ARGV[1], -33, -12) .. digits .. expires",
                    "'PX', ARGV[2] + long)\n      return string.sub(ARGV[1], -33, -12) .. digits .. granted",
                ),
            ],
            Self::LateRequests => vec![
                ("if time - ARGV[3] > 0 then", "if false then"),
                ("if time - ARGV[2] > 0 then", "if false then"),
                ("if time - ARGV[1] > 0 then", "if false then"),
            ],
            Self::SettledTooSoon => vec![
                (
                    "if name == KEYS[2] and",
                    "FLAW = FLAW or {}\nif not FLAW[KEYS[1]] and name == KEYS[2] and",
                ),
                (
                    "if not name then\n  return refusal or { NOT_FOUND, time }",
                    "FLAW = FLAW or {}\nif not name or FLAW[KEYS[1]] then\n  \
                     if #ARGV == 2 then FLAW[KEYS[1]] = true end\n  return refusal or { NOT_FOUND, time }",
                ),
            ],
            Self::BlindExtends => vec![("if ARGV[4] ~= '' and", "if false and")],
            Self::EndlessWindow => vec![("number >= tonumber(BELOW)", "false")],
            Self::EarlyWindow => vec![("time < tonumber(NOT_BEFORE)", "false")],
            _ => Vec::new(),
        }
    }

    /// The stores that the flaw means.
    #[must_use]
    pub fn stores(self) -> &'static [Store] {
        match self {
            // Requests that may arrive twice matter most.
            Self::SettledTooSoon | Self::ForgottenCopy => &[Store::RedisCluster],
            Self::UncheckedCounter | Self::UncheckedRelease => {
                &[Store::Firestore, Store::Etcd, Store::ObjectStore]
            }
            Self::UncheckedCleanUp
            | Self::UnmovedCounter
            | Self::UncheckedExtend
            | Self::SettledLater => &[Store::Firestore, Store::Etcd],
            // The bounds of the time keep holders apart without the tolerance, so only the store's clock tells that a lock was
            // taken over too soon, and etcd's members have no common one.
            Self::HastyClients => &[Store::Firestore],
            Self::WallTime | Self::NoMajority | Self::SwappedBounds | Self::AwakeTime => {
                &[Store::Etcd]
            }
            // Statements that are not cancelled matter most.
            Self::StaleNow => &[Store::Pgbouncer],
            Self::MissingRowLock
            | Self::UpsertingExtend
            | Self::ForgottenSending
            | Self::ResentExtends
            | Self::NotAlone
            | Self::OneLook
            | Self::StaleWindow => &[Store::Postgres],
            _ => &[Store::Redis],
        }
    }

    /// Returns true if the only effect is a tick that starts twice or too early.
    pub(crate) fn starts_ticks_twice(self) -> bool {
        matches!(self, Self::EndlessWindow | Self::EarlyWindow | Self::StaleWindow)
    }

    /// Returns true if it shows only among readers and writers.
    pub(crate) fn is_of_readers(self) -> bool {
        matches!(self, Self::SkippedSlot | Self::HastyReader | Self::KeptSlot)
    }

    /// Returns true if the only effect is a lock without an owner.
    pub(crate) fn leaves_orphans(self) -> bool {
        matches!(
            self,
            Self::SettledTooSoon
                | Self::UnmovedCounter
                | Self::StaleNow
                | Self::UpsertingExtend
                | Self::ForgottenSending
                | Self::NotAlone
                | Self::OneLook
        )
    }

    /// Returns true if it shows only when statements of PostgreSQL wait for each other.
    pub(crate) fn needs_slow_steps(self) -> bool {
        matches!(
            self,
            Self::MissingRowLock
                | Self::StaleNow
                | Self::UpsertingExtend
                | Self::NotAlone
                | Self::OneLook
                | Self::StaleWindow
        )
    }
}
