//! The planted flaws.

use clap::ValueEnum;
use syncguard_history::Invariant;

use crate::plan::Store;
use crate::redis::Patch;

/// A flaw. Some are in the scripts of Redis, some in the simulated statements of PostgreSQL, some are planted in the
/// code of a backend, and some are in a flawed copy of a user.
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
    /// Readers and writers: a writer takes all slots but the first. Planted in the recipe, as the next two.
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
    /// Redis cluster: a release that was sent twice counts as carried out once, so its second copy says "not held".
    ForgottenCopy,
    /// The backend takes the first "not held" for the end of a clean-up.
    SettledTooSoon,
    /// A user of the bare backend begins its work with a grant whose time is over.
    StaleGrant,
    /// Firestore: the commit that takes a lock states the version of the lock, and not that of the counter.
    UncheckedCounter,
    /// Firestore: a clean-up deletes the lock in any version.
    UncheckedCleanUp,
    /// Firestore: a release deletes the lock in any version.
    UncheckedRelease,
    /// Firestore: for its clients a lock is over as soon as it has expired by their own clock.
    HastyClients,
    /// Firestore: a clean-up that finds no lock leaves the counter as it was, so a late commit still succeeds.
    UnmovedCounter,
    /// Firestore: an extend states neither the version nor the expiry that it knows.
    UncheckedExtend,
    /// etcd: the members tell no time, so that locks go by the wall clocks of the processes. On the wire, as the next two.
    WallTime,
    /// etcd: a process asks one member for its time, and not a majority.
    NoMajority,
    /// etcd: the earliest bound of the store's time is where the latest one should be, and the other way round.
    SwappedBounds,
    /// etcd: the library does not count the time for which the machine was asleep.
    AwakeTime,
    /// etcd: after an unknown sending the backend answers "busy" at once, and cleans up later, when the caller may have the
    /// lock by another try.
    SettledLater,
    /// PostgreSQL: acquire decides by the row in its snapshot, and overwrites its current state.
    MissingRowLock,
    /// PostgreSQL: the time is that of the statement's start, before all waits.
    StaleNow,
    /// PostgreSQL: an extend does not lock the row, and writes all of it, so a lock that was released meanwhile comes
    /// back.
    UpsertingExtend,
    /// PostgreSQL: the backend sends an extend again after a lost connection.
    ResentExtends,
    /// PostgreSQL: after a release, the backend ignores the first sending of an acquire that was sent twice.
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

    /// The name of the flaw in the code of a backend or a recipe.
    pub(crate) fn planted(self) -> &'static str {
        match self {
            Self::SettledTooSoon => "settled-too-soon",
            Self::ForgottenCopy => "forgotten-copy",
            Self::UncheckedCounter => "unchecked-counter",
            Self::UncheckedCleanUp => "unchecked-clean-up",
            Self::UncheckedRelease => "unchecked-release",
            Self::HastyClients => "hasty-clients",
            Self::UnmovedCounter => "unmoved-counter",
            Self::UncheckedExtend => "unchecked-extend",
            Self::SettledLater => "settled-later",
            Self::ResentExtends => "resent-extends",
            Self::ForgottenSending => "forgotten-sending",
            Self::OneLook => "one-look",
            Self::SkippedSlot => "skipped-slot",
            Self::HastyReader => "hasty-reader",
            Self::KeptSlot => "kept-slot",
            _ => "",
        }
    }

    /// The flaw as a change of the scripts of Redis.
    pub(crate) fn patches(self) -> Vec<Patch> {
        match self {
            Self::SecondHolder => vec![(
                "if held then\n",
                "FLAW = (FLAW or 0) + 1\nif held and FLAW % 50 ~= 0 then\n",
            )],
            Self::NoTolerance => vec![("expires + TOLERANCE > time", "expires > time")],
            Self::RepeatedFence => vec![(
                "local fence = redis.pcall('INCR', KEYS[2])",
                "FLAW = (FLAW or 0) + 1\nlocal fence = redis.pcall('INCR', KEYS[2])\n\
                 if FLAW % 50 == 0 and fence > 1 then fence = redis.pcall('DECR', KEYS[2]) end",
            )],
            Self::EndlessRelease => vec![
                (
                    "local name, refusal = get(KEYS[1])\nif not name then\n  return refusal or { NOT_FOUND, time }",
                    "FLAW = FLAW or {}\nlocal name, refusal = get(KEYS[1])\nif not name then\n  \
                 if #ARGV == 2 and FLAW[ARGV[1]] then return 1 end\n  return refusal or { NOT_FOUND, time }",
                ),
                (
                    "redis.call('DEL', name, KEYS[1])\nif raises",
                    "FLAW[ARGV[1]] = true\nredis.call('DEL', name, KEYS[1])\nif raises",
                ),
            ],
            Self::Undead => vec![(
                "if not name then\n  return refusal or { NOT_FOUND, time }",
                "FLAW = (FLAW or 0) + 1\nif not name then\n  \
                 if #ARGV == 5 and FLAW % 3 == 0 then return time + ARGV[2] end\n  \
                 return refusal or { NOT_FOUND, time }",
            )],
            Self::Orphans => vec![(
                "redis.call('DEL', name, KEYS[1])\nif raises",
                "FLAW = (FLAW or 0) + 1\nif FLAW % 20 ~= 0 then redis.call('DEL', name, KEYS[1]) end\n\
                 if raises",
            )],
            Self::LongLife => vec![
                (
                    "local expires = time + ARGV[2] .. ''",
                    "FLAW = (FLAW or 0) + 1\nlocal long = FLAW % 20 == 0 and 60000 or 0\n\
                     local granted = time + ARGV[2] .. ''\n\
                     local expires = time + ARGV[2] + long .. ''",
                ),
                (
                    "'PX', ARGV[3])\nreturn ARGV[1] .. digits .. expires",
                    "'PX', ARGV[3] + long)\nreturn ARGV[1] .. digits .. granted",
                ),
            ],
            Self::LateRequests => vec![
                ("if time - ARGV[5] > 0 then", "if false then"),
                ("if time - ARGV[4] > 0 then", "if false then"),
                ("if time - ARGV[2] > 0 then", "if false then"),
            ],
            Self::BlindExtends => vec![("if ARGV[5] ~= '' and", "if false and")],
            Self::EndlessWindow => vec![("number >= tonumber(BELOW)", "false")],
            Self::EarlyWindow => vec![("time < tonumber(NOT_BEFORE)", "false")],
            _ => Vec::new(),
        }
    }

    /// The store with the flaw.
    #[must_use]
    pub fn store(self) -> Store {
        match self {
            // Requests that may arrive twice matter most.
            Self::SettledTooSoon | Self::ForgottenCopy => Store::RedisCluster,
            Self::UncheckedCounter
            | Self::UncheckedCleanUp
            | Self::UncheckedRelease
            | Self::HastyClients
            | Self::UnmovedCounter
            | Self::UncheckedExtend => Store::Firestore,
            Self::WallTime
            | Self::NoMajority
            | Self::SwappedBounds
            | Self::AwakeTime
            | Self::SettledLater => Store::Etcd,
            // Statements that are not cancelled matter most.
            Self::StaleNow => Store::Pgbouncer,
            Self::MissingRowLock
            | Self::UpsertingExtend
            | Self::ForgottenSending
            | Self::ResentExtends
            | Self::NotAlone
            | Self::OneLook
            | Self::StaleWindow => Store::Postgres,
            _ => Store::Redis,
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A patch that matches no script plants nothing.
    #[test]
    fn each_patch_changes_a_script_of_the_library() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/syncguard-redis/src/lua");
        let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
        let scripts: Vec<_> = files.map(|path| std::fs::read_to_string(path).unwrap()).collect();
        for flaw in Flaw::all() {
            for (from, _) in flaw.patches() {
                let is_there = scripts.iter().any(|script| script.contains(from));
                assert!(is_there, "{flaw:?}: {from}");
            }
        }
    }
}
