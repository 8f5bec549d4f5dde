//! What goes wrong on the way to the server, and with the server.

use std::time::{Duration, Instant};

use anyhow::Result;
use syncguard_history::Random;
use syncguard_history::{Entry, Fault, Recorder};
use syncguard_test_services::proxy::{FaultProxy, Hold, ReplyCut};

use crate::stores::Store;

/// Breaks the way now and then, one fault at a time. Once, it stops the server.
pub(crate) struct Chaos<'a> {
    store: &'a Store,
    /// Without one, nothing can go wrong on the way.
    proxy: Option<&'a FaultProxy>,
    recorder: Recorder,
    random: Random,
    cuts: u64,
    now: Option<Fault>,
    /// When the fault is lifted, or the next one comes.
    next: Instant,
    /// When what is held back arrives.
    late: Option<Instant>,
    /// When the server is stopped.
    stop: Option<Instant>,
}

impl<'a> Chaos<'a> {
    pub(crate) fn new(store: &'a Store, recorder: Recorder, random: Random) -> Self {
        let (proxy, now) = (store.proxy.as_ref(), Instant::now());
        let next = now + Duration::from_millis(500);
        let stop = Some(now + Duration::from_secs(4));
        Self { store, proxy, recorder, random, cuts: 0, now: None, next, late: None, stop }
    }

    /// Does what is due.
    pub(crate) fn tick(&mut self) -> Result<()> {
        let cuts = self.proxy.map_or(0, |proxy| proxy.counters().cuts);
        for _ in self.cuts..cuts {
            self.recorder.note(Entry::Fault(Fault::Cut));
        }
        self.cuts = cuts;
        let now = Instant::now();
        if self.late.is_some_and(|late| late <= now) {
            self.deliver();
        }
        if self.next > now {
            return Ok(());
        }
        match self.now {
            None => {
                let lasts = self.strike()?;
                self.next = Instant::now() + lasts;
            }
            Some(_) => {
                self.lift()?;
                let calm = if self.is_stop_due() { CALM } else { self.random.millis(200, 400) };
                self.next = Instant::now() + calm;
            }
        }
        Ok(())
    }

    /// Sets a fault, and says for how long.
    fn strike(&mut self) -> Result<Duration> {
        let Some(fault) = self.choose() else { return Ok(CALM / 10) };
        let delay = self.random.millis(10, 60);
        let bytes = usize::try_from(self.random.below(60)).unwrap_or(0);
        match (fault, self.proxy) {
            (Fault::ServerStopped, _) => self.store.pause()?,
            (Fault::Cut, Some(proxy)) => proxy.set_reply_cut(ReplyCut::Once(bytes)),
            (Fault::Delayed, Some(proxy)) => proxy.set_latency(delay, delay),
            (Fault::Severed, Some(proxy)) => proxy.sever(),
            (Fault::Frozen, Some(proxy)) => proxy.freeze(true),
            (_, Some(proxy)) => proxy.hold(Hold::Open),
            (_, None) => {}
        }
        // A cut is on record when it has happened, and so is what is late.
        if !matches!(fault, Fault::Cut | Fault::Late) {
            self.recorder.note(Entry::Fault(fault));
        }
        self.now = Some(fault);
        Ok(match fault {
            Fault::Severed => Duration::ZERO,
            Fault::Cut => Duration::from_millis(50),
            Fault::ServerStopped => STOPPED,
            _ => self.random.millis(150, 350),
        })
    }

    fn is_stop_due(&self) -> bool {
        self.late.is_none() && self.stop.is_some_and(|stop| stop <= Instant::now())
    }

    /// Nothing, where only the server can stop and has done so.
    fn choose(&mut self) -> Option<Fault> {
        if self.is_stop_due() {
            self.stop = None;
            return Some(Fault::ServerStopped);
        }
        self.proxy?;
        Some(match self.random.below(100) {
            0..15 => Fault::Delayed,
            // These lose what is held back.
            15..40 if self.late.is_none() => Fault::Severed,
            40..60 if self.late.is_none() => Fault::Frozen,
            60..75 if self.late.is_none() => Fault::Late,
            _ => Fault::Cut,
        })
    }

    /// Lifts whatever there is.
    fn lift(&mut self) -> Result<()> {
        if let Some(proxy) = self.proxy {
            proxy.set_reply_cut(ReplyCut::Never);
            proxy.set_latency(Duration::ZERO, Duration::ZERO);
        }
        match (self.now.take(), self.proxy) {
            (None, _) => return Ok(()),
            (Some(Fault::Frozen), Some(proxy)) => {
                proxy.freeze(false);
                // What was swallowed stays lost, so nothing sensible follows on these connections.
                proxy.sever();
            }
            (Some(Fault::ServerStopped), _) => self.store.resume()?,
            (Some(Fault::Late), Some(proxy)) => {
                // Their senders go on over new connections, and what they have sent is on its way.
                proxy.hold(Hold::None);
                proxy.sever_clients();
                self.late = Some(Instant::now() + self.random.millis(LATE.0, LATE.1));
            }
            (Some(_), _) => {}
        }
        self.recorder.note(Entry::Healed);
        Ok(())
    }

    fn deliver(&mut self) {
        self.late = None;
        for _ in 0..self.proxy.map_or(0, FaultProxy::deliver) {
            self.recorder.note(Entry::Fault(Fault::Late));
        }
    }

    /// Lifts whatever there is, and lets arrive what is late.
    pub(crate) fn heal(&mut self) -> Result<()> {
        self.lift()?;
        self.deliver();
        Ok(())
    }
}

/// Longer than anybody waits for an answer, and than the limit for what may be on its way.
const STOPPED: Duration = Duration::from_secs(6);
/// Before that, service is to be back after the last fault.
const CALM: Duration = Duration::from_secs(2);
/// When requests arrive, in milliseconds after their senders heard that their connections are gone.
const LATE: (u64, u64) = (4500, 6000);
