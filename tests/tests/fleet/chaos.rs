//! What goes wrong on the way to the server.

use std::time::{Duration, Instant};

use syncguard_test_services::proxy::{FaultProxy, ReplyCut};
use syncguard_tests::history::{Entry, Fault, Recorder};
use syncguard_tests::random::Random;

/// Breaks the way now and then, one fault at a time.
pub(crate) struct Chaos<'a> {
    proxy: &'a FaultProxy,
    recorder: Recorder,
    random: Random,
    cuts: u64,
    now: Option<Fault>,
    /// When the fault is lifted, or the next one comes.
    next: Instant,
}

impl<'a> Chaos<'a> {
    pub(crate) fn new(proxy: &'a FaultProxy, recorder: Recorder, random: Random) -> Self {
        let next = Instant::now() + Duration::from_millis(500);
        Self { proxy, recorder, random, cuts: 0, now: None, next }
    }

    /// Does what is due.
    pub(crate) fn tick(&mut self) {
        let cuts = self.proxy.counters().cuts;
        for _ in self.cuts..cuts {
            self.recorder.note(Entry::Fault(Fault::Cut));
        }
        self.cuts = cuts;
        if self.next > Instant::now() {
            return;
        }
        match self.now {
            None => {
                let lasts = self.strike();
                self.next = Instant::now() + lasts;
            }
            Some(_) => {
                self.heal();
                self.next = Instant::now() + self.random.millis(200, 400);
            }
        }
    }

    /// Sets a fault, and says for how long.
    fn strike(&mut self) -> Duration {
        let delay = self.random.millis(10, 60);
        let fault = match self.random.below(100) {
            0..40 => {
                let bytes = self.random.below(60);
                self.proxy.set_reply_cut(ReplyCut::Once(usize::try_from(bytes).unwrap_or(0)));
                Fault::Cut
            }
            40..65 => {
                self.proxy.set_latency(delay, delay);
                Fault::Delayed
            }
            65..85 => {
                self.proxy.sever();
                Fault::Severed
            }
            _ => {
                self.proxy.freeze(true);
                Fault::Frozen
            }
        };
        // A cut is on record when it has happened.
        if fault != Fault::Cut {
            self.recorder.note(Entry::Fault(fault));
        }
        self.now = Some(fault);
        match fault {
            Fault::Severed => Duration::ZERO,
            Fault::Cut => Duration::from_millis(50),
            _ => self.random.millis(150, 350),
        }
    }

    /// Lifts whatever there is.
    pub(crate) fn heal(&mut self) {
        self.proxy.set_reply_cut(ReplyCut::Never);
        self.proxy.set_latency(Duration::ZERO, Duration::ZERO);
        if self.now == Some(Fault::Frozen) {
            self.proxy.freeze(false);
            // What was swallowed stays lost, so nothing sensible follows on these connections.
            self.proxy.sever();
        }
        if self.now.take().is_some() {
            self.recorder.note(Entry::Healed);
        }
    }
}
