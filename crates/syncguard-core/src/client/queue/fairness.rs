//! How the processes that want the same key share it.
//!
//! A process hands a key on from one waiter to the next faster than a rival process can ask for it. So a
//! process that has kept a key to itself for a turn steps back: it leaves the key free until a rival takes
//! it, for [`PAUSE`] at the most. A turn lasts [`TURN`] after a rival was seen. Each pause in which no rival
//! takes the key doubles the turn, up to [`LONGEST_TURN`].
//!
//! A client that only polls, such as the TypeScript library, gets a key only if it is free at the moment of
//! a poll. While a process knows of such a client, it leaves the key free after each turn for as long as the
//! key was in use, for [`PAUSE`] at the most.

use std::ops::Range;
use std::time::Duration;

use crate::rt::Instant;

/// How long a process keeps a key to itself after it has seen a rival. With 16 ms, four processes with four
/// waiters each wait for 6 ideal rounds at most; with 50 ms for 15. A shorter turn spends more of the time on
/// the change of process.
pub(super) const TURN: Duration = Duration::from_millis(16);

/// How long a process keeps a key to itself while no rival takes it. A new rival waits this long at the most,
/// and a single task that takes the key in a loop loses 2.5 % of its time to the pauses.
pub(super) const LONGEST_TURN: Duration = Duration::from_millis(900);

/// How long a process leaves a key free at the most. A rival that is 10 ms further from the store needs 20 ms
/// to hear of the release and to ask; with less than 22 ms it gets the key only once in several turns.
pub(super) const PAUSE: Duration = Duration::from_millis(25);

/// How long a head that lost a race holds back after a signal, at the most. After the third turn of a rival it
/// is a third of this, because tokio's timers have steps of 1 ms. Between four processes, 1 ms costs 4.5
/// commands for each hand-over, 3 ms cost 3.8, and 5 ms leave the key unused for longer.
pub(super) const HOLD_BACK: Duration = Duration::from_millis(3);

/// For how long a process remembers rivals. The TypeScript library polls at least every 2.4 s. With 5 s, a key
/// would stay half used for longer after the last such client has gone.
pub(super) const MEMORY: Duration = Duration::from_secs(2);

/// The knowledge of one process about its rivals for one key.
pub(super) struct Fairness {
    /// Whether no other process can reach the store.
    is_single_process: bool,
    /// How long this process may keep the key to itself.
    turn: Duration,
    /// Since when this process has kept the key to itself.
    kept_since: Option<Instant>,
    /// When a guard of this process released the key last.
    released_at: Option<Instant>,
    /// How many turns of rivals this process has seen since it had the key itself, and when the last turn
    /// began.
    rival_turns: Option<(u32, Instant)>,
    /// When a rival was seen last.
    rival_at: Option<Instant>,
    /// When a client that polls was seen with the key last.
    poller_at: Option<Instant>,
    /// Whether the last holder polls.
    holder_polls: bool,
    /// For how long clients with signals have used the key since a client that polls had it.
    used: Duration,
    /// Since when the present holder has had the key.
    used_since: Option<Instant>,
}

/// A pause in which a process leaves a key free for rivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StepBack {
    /// How long the pause lasts, unless a rival takes the key before.
    pub(crate) pause: Duration,
    /// When to check first whether a rival has taken the key. The time to each further check doubles.
    pub(crate) first_check: Duration,
    /// Whether the turn was over long ago. Then even a head with hardly any time left must not skip the pause.
    pub(crate) is_overdue: bool,
}

/// How a process holds back after a signal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HoldBack {
    /// How long the head waits, at random within this range.
    pub(crate) pause: Range<Duration>,
    /// Whether the head checks the key before it asks, because a rival is likely to be faster.
    pub(crate) checks_first: bool,
}

impl Fairness {
    pub(super) fn new(is_single_process: bool) -> Self {
        Self {
            is_single_process,
            turn: LONGEST_TURN,
            kept_since: None,
            released_at: None,
            rival_turns: None,
            rival_at: None,
            poller_at: None,
            holder_polls: false,
            used: Duration::ZERO,
            used_since: None,
        }
    }

    /// A waiter enters an empty queue, and no guard of this process has the key.
    pub(super) fn on_arrival(&mut self, now: Instant) {
        // This process has left the key free for long enough.
        if self.released_at.is_none_or(|released| released + PAUSE <= now) {
            self.kept_since = None;
            self.rival_turns = None;
        }
    }

    /// A guard of this process has got the lock.
    pub(super) fn on_granted(&mut self, now: Instant) {
        // The time of a hand-over within a turn counts as use.
        self.used_since = self.kept_since.and(self.released_at).or(Some(now));
        self.kept_since.get_or_insert(now);
        self.holder_polls = false;
        self.rival_turns = None;
    }

    /// A guard of this process has released the lock.
    pub(super) fn on_released(&mut self, now: Instant) {
        self.released_at = Some(now);
        self.add_use_until(now);
    }

    /// A rival has the lock.
    pub(super) fn on_rival_seen(&mut self, now: Instant, holder_polls: bool) {
        self.turn = TURN;
        self.rival_at = Some(now);
        self.kept_since = None;
        self.holder_polls = holder_polls;
        let is_new = self.used_since.is_none();
        self.used_since.get_or_insert(now);
        self.rival_turns = match self.rival_turns {
            None => Some((1, now)),
            // Hand-overs within a rival process belong to one turn.
            Some((turns, at)) if is_new && at + TURN <= now => Some((turns.saturating_add(1), now)),
            known => known,
        };
        if holder_polls {
            self.poller_at = Some(now);
            self.used = Duration::ZERO;
        }
    }

    /// A rival has released the lock.
    pub(super) fn on_rival_released(&mut self, now: Instant) {
        self.add_use_until(now);
    }

    fn add_use_until(&mut self, now: Instant) {
        if let Some(since) = self.used_since.take()
            && !self.holder_polls
        {
            self.used = self.used.saturating_add(now.saturating_duration_since(since));
        }
    }

    /// Returns the pause that this process makes before it asks for a key that was just released.
    pub(super) fn step_back(&self, now: Instant) -> Option<StepBack> {
        if self.is_single_process {
            return None;
        }
        if self.knows_pollers(now) && !self.holder_polls && self.used >= TURN {
            let pause = self.used.min(PAUSE);
            let is_overdue = self.used >= TURN * 2;
            return Some(StepBack { pause, first_check: pause, is_overdue });
        }
        let since = self.kept_since.filter(|since| *since + self.turn <= now)?;
        let is_overdue = since + self.turn * 2 <= now;
        Some(StepBack { pause: PAUSE, first_check: HOLD_BACK, is_overdue })
    }

    /// No rival has taken the key during a pause.
    pub(super) fn on_no_rival(&mut self) {
        self.kept_since = None;
        self.turn = LONGEST_TURN.min(self.turn * 2);
    }

    /// How to hold back after a signal, which rivals get as well. The process that has gone without the key
    /// for longest asks first; chance decides between processes that have waited equally long.
    pub(super) fn hold_back(&self) -> Option<HoldBack> {
        let (turns, _) = self.rival_turns?;
        let (slot, slots_before) = (HOLD_BACK / 3, 3 - turns.min(3));
        let least = slot * slots_before;
        Some(HoldBack { pause: least..least + slot, checks_first: slots_before > 0 })
    }

    /// Whether a rival was ever seen with the key.
    pub(super) fn ever_saw_rival(&self) -> bool {
        self.rival_at.is_some()
    }

    /// Whether a rival was seen with the key since this process had it.
    pub(super) fn lost_to_rival(&self) -> bool {
        self.rival_turns.is_some()
    }

    /// When an unused queue may forget this state; `None` for at once.
    pub(super) fn forget_at(&self) -> Option<Instant> {
        if self.is_single_process {
            return None;
        }
        let rival = self.rival_at.map(|at| at + MEMORY);
        let own = self.released_at.filter(|_| self.kept_since.is_some()).map(|at| at + PAUSE);
        rival.max(own)
    }

    fn knows_pollers(&self, now: Instant) -> bool {
        self.poller_at.is_some_and(|at| now < at + MEMORY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// A process that has lost the key to a rival and got it back.
    fn with_rival(now: Instant) -> Fairness {
        let mut fairness = Fairness::new(false);
        fairness.on_rival_seen(now, false);
        fairness.on_granted(now);
        fairness
    }

    #[test]
    fn a_turn_is_short_once_a_rival_was_seen_and_grows_while_none_comes() {
        let start = Instant::now();
        let mut fairness = Fairness::new(false);
        fairness.on_granted(start);
        assert_eq!(fairness.step_back(start + ms(899)), None);
        assert!(fairness.step_back(start + LONGEST_TURN).is_some());

        let mut fairness = with_rival(start);
        let (mut now, mut turns) = (start, Vec::new());
        for _ in 0..8 {
            fairness.on_granted(now);
            let turn = (0..1_000).map(ms).find(|turn| fairness.step_back(now + *turn).is_some());
            now = now + turn.unwrap_or_default();
            turns.push(turn.unwrap_or_default().as_millis());
            fairness.on_no_rival();
        }
        assert_eq!(turns, [16, 32, 64, 128, 256, 512, 900, 900]);
        fairness.on_rival_seen(now, false);
        fairness.on_granted(now);
        assert!(fairness.step_back(now + TURN).is_some(), "a rival makes it short again");
    }

    #[test]
    fn a_turn_goes_on_through_hand_overs_and_ends_with_a_break() {
        let start = Instant::now();
        let mut fairness = with_rival(start);
        fairness.on_released(start + ms(10));
        fairness.on_arrival(start + ms(12));
        fairness.on_granted(start + ms(13));
        fairness.on_released(start + ms(17));
        fairness.on_arrival(start + ms(17));
        assert!(fairness.step_back(start + ms(17)).is_some());
        // The process has left the key free without a pause.
        fairness.on_arrival(start + ms(17) + PAUSE);
        assert_eq!(fairness.step_back(start + ms(17) + PAUSE), None);
    }

    #[test]
    fn a_waiter_that_lost_a_race_holds_back_and_less_after_each_turn_of_a_rival() {
        let start = Instant::now();
        let mut fairness = Fairness::new(false);
        fairness.on_arrival(start);
        assert_eq!(fairness.hold_back(), None, "no rival is known");
        let slot =
            |number: u64| HoldBack { pause: ms(number)..ms(number + 1), checks_first: number > 0 };
        for (turn, number) in [2, 1, 0, 0].into_iter().enumerate() {
            let now = start + TURN * u32::try_from(turn).unwrap();
            fairness.on_rival_seen(now, false);
            assert_eq!(fairness.hold_back(), Some(slot(number)));
            // The same holder is seen once more, and then another waiter of its process, within the same turn.
            fairness.on_rival_seen(now + TURN, false);
            fairness.on_rival_released(now + ms(1));
            fairness.on_rival_seen(now + ms(1), false);
            fairness.on_rival_released(now + TURN);
            assert_eq!(fairness.hold_back(), Some(slot(number)));
        }
        fairness.on_granted(start);
        fairness.on_released(start);
        fairness.on_rival_seen(start, false);
        assert_eq!(fairness.hold_back(), Some(slot(2)), "it has just had the key");
        // The process of a client that polls hands the key on to its next waiter as well.
        fairness.on_rival_seen(start, true);
        assert_eq!(fairness.hold_back(), Some(slot(2)));
    }

    #[test]
    fn the_key_is_left_free_for_as_long_as_it_was_used_while_a_client_polls() {
        let start = Instant::now();
        let mut fairness = Fairness::new(false);
        fairness.on_rival_seen(start, true);
        assert_eq!(fairness.step_back(start), None, "the client that polls has had the key");
        fairness.on_granted(start);
        fairness.on_released(start + ms(10));
        assert_eq!(fairness.step_back(start + ms(10)), None);
        // A rival with signals uses the key as well.
        fairness.on_rival_seen(start + ms(10), false);
        fairness.on_rival_released(start + ms(20));
        let pause = |fairness: &Fairness, now| fairness.step_back(now).map(|step| step.pause);
        assert_eq!(pause(&fairness, start + ms(20)), Some(ms(20)));
        fairness.on_granted(start + ms(20));
        fairness.on_released(start + ms(60));
        assert_eq!(pause(&fairness, start + ms(60)), Some(PAUSE));
        // A client that polls has come.
        fairness.on_rival_seen(start + ms(70), true);
        fairness.on_rival_released(start + ms(99));
        assert_eq!(pause(&fairness, start + ms(99)), None);
        fairness.on_granted(start + ms(100));
        fairness.on_released(start + ms(101));
        // The next waiter of the process.
        fairness.on_granted(start + ms(110));
        fairness.on_released(start + ms(100) + TURN);
        assert_eq!(pause(&fairness, start + ms(100) + TURN), Some(TURN));
        let since_it_has_gone = fairness.step_back(start + ms(70) + MEMORY);
        let first_check = since_it_has_gone.map(|step| step.first_check);
        assert_eq!(first_check, Some(HOLD_BACK), "only the own turn of the process is left");
    }

    #[test]
    fn a_single_process_never_steps_back_and_remembers_nothing() {
        let start = Instant::now();
        let mut fairness = Fairness::new(true);
        fairness.on_granted(start);
        fairness.on_released(start);
        assert_eq!(fairness.step_back(start + LONGEST_TURN), None);
        assert_eq!(fairness.forget_at(), None);
    }

    #[test]
    fn rivals_are_remembered_for_longer_than_an_own_turn() {
        let start = Instant::now();
        let mut fairness = Fairness::new(false);
        assert_eq!(fairness.forget_at(), None);
        fairness.on_granted(start);
        fairness.on_released(start);
        assert_eq!(fairness.forget_at(), Some(start + PAUSE));
        fairness.on_rival_seen(start, false);
        assert_eq!(fairness.forget_at(), Some(start + MEMORY));
    }
}
