//! Who stays awake for an answer, or for the next question.
//!
//! To wake a thread that sleeps takes 30 to 80 µs in a virtual machine, and each operation wakes two: the one
//! that works on the file, and the one of the caller's runtime. On a fast disk that is more than the write
//! takes. So both stay awake for a moment where that is likely to be enough: the thread while one operation
//! follows another closely, and a caller that is alone while the file has been quick. A caller lets all other
//! tasks of its runtime run meanwhile. Nobody stays awake on a single processor, or while other processes
//! write to the file: they need the processors.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::clock::uptime;

/// What callers and the thread know of each other. Clones share it.
#[derive(Clone)]
pub(crate) struct Awake(Arc<State>);

struct State {
    /// Whether there is a processor for each of two.
    has_room: bool,
    /// Callers that wait for an answer.
    callers: AtomicUsize,
    /// How long operations take the thread, in µs.
    usual: AtomicU64,
    /// Until when others need the processors, in µs of the uptime.
    others_until: AtomicU64,
}

impl Awake {
    /// Operations that take longer are worth no waiting awake.
    const QUICK: Duration = Duration::from_micros(300);
    /// For how long a caller stays awake at the most.
    const FOR_ANSWER: Duration = Duration::from_micros(400);
    /// For how long the thread does.
    pub(crate) const FOR_QUESTION: Duration = Duration::from_micros(100);
    /// For how long other processes are reckoned with that were noticed.
    const MEMORY: Duration = Duration::from_secs(1);

    pub(crate) fn new() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self(Arc::new(State {
            has_room: processors > 1,
            callers: AtomicUsize::new(0),
            // Not quick until it has been.
            usual: AtomicU64::new(micros(Self::QUICK) + 1),
            others_until: AtomicU64::new(0),
        }))
    }

    /// One more caller waits, until this is dropped.
    pub(crate) fn waits(&self) -> Caller<'_> {
        self.0.callers.fetch_add(1, Ordering::Relaxed);
        Caller { awake: self, since: uptime() }
    }

    /// Whether the thread may stay awake for the next operation.
    pub(crate) fn may(&self) -> bool {
        self.may_at(uptime())
    }

    fn may_at(&self, now: Duration) -> bool {
        let others_until = self.0.others_until.load(Ordering::Relaxed);
        self.0.has_room && others_until <= micros(now)
    }

    /// An operation took the thread so long.
    pub(crate) fn took(&self, time: Duration) {
        let usual = self.0.usual.load(Ordering::Relaxed);
        self.0.usual.store(usual / 4 * 3 + micros(time) / 4, Ordering::Relaxed);
    }

    /// Another process writes to the file.
    pub(crate) fn has_seen_others(&self) {
        let until = micros(uptime().saturating_add(Self::MEMORY));
        self.0.others_until.store(until, Ordering::Relaxed);
    }
}

/// A caller that waits for an answer.
pub(crate) struct Caller<'a> {
    awake: &'a Awake,
    since: Duration,
}

impl Caller<'_> {
    /// Whether its answer is likely to be here before it could fall asleep and be woken.
    pub(crate) fn stays_awake(&self) -> bool {
        self.stays_awake_at(uptime())
    }

    fn stays_awake_at(&self, now: Duration) -> bool {
        let state = &self.awake.0;
        let is_alone = state.callers.load(Ordering::Relaxed) == 1;
        let is_quick = state.usual.load(Ordering::Relaxed) <= micros(Awake::QUICK);
        is_alone
            && is_quick
            && now.saturating_sub(self.since) < Awake::FOR_ANSWER
            && self.awake.may_at(now)
    }
}

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        self.awake.0.callers.fetch_sub(1, Ordering::Relaxed);
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_room() -> Awake {
        let State { callers, usual, others_until, .. } = Arc::into_inner(Awake::new().0).unwrap();
        Awake(Arc::new(State { has_room: true, callers, usual, others_until }))
    }

    /// Just after it has begun to wait.
    fn stays_awake(caller: &Caller<'_>) -> bool {
        caller.stays_awake_at(caller.since)
    }

    #[test]
    fn one_that_is_alone_stays_awake_for_a_quick_answer() {
        let awake = with_room();
        assert!(!stays_awake(&awake.waits()), "nothing is known yet");
        for _ in 0..4 {
            awake.took(Duration::from_micros(100));
        }
        let one = awake.waits();
        assert!(stays_awake(&one));
        let two = awake.waits();
        assert!(!stays_awake(&one) && !stays_awake(&two), "they are two");
        drop(two);
        assert!(stays_awake(&one));
        assert!(!one.stays_awake_at(one.since + Awake::FOR_ANSWER), "it takes too long");
        drop(one);
        awake.took(Duration::from_millis(10));
        assert!(!stays_awake(&awake.waits()), "the disk is slow");
    }

    #[test]
    fn other_processes_need_the_processors() {
        let awake = with_room();
        awake.took(Duration::ZERO);
        let before = uptime();
        assert!(awake.may_at(before) && stays_awake(&awake.waits()));
        awake.has_seen_others();
        assert!(!awake.may_at(before));
        let caller = awake.waits();
        assert!(!caller.stays_awake_at(before));
        assert!(awake.may_at(uptime() + Awake::MEMORY));
    }
}
