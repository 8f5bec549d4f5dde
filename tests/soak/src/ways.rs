//! Faults of the network between a process and its server. Each process has a proxy of its own.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use syncguard_history::{Entry, Fault, Random, Recorder};
use syncguard_test_services::proxy::{FaultProxy, Hold, ReplyCut};

/// Proxies that break now and then, each by itself and with one fault at a time.
pub(crate) struct Ways {
    ways: Vec<Way>,
}

impl Ways {
    /// Creates this many proxies to the server at this port.
    pub(crate) fn start(
        count: usize,
        port: u16,
        recorder: &Recorder,
        random: &mut Random,
    ) -> Result<Self> {
        let ways = (0..count).map(|_| {
            let random = Random::new(random.number());
            Ok(Way {
                proxy: FaultProxy::start(port)?,
                recorder: recorder.clone(),
                random,
                cuts: 0,
                now: None,
                next: Instant::now() + CALM,
                late: None,
            })
        });
        Ok(Self { ways: ways.collect::<Result<_>>()? })
    }

    pub(crate) fn ports(&self) -> Vec<u16> {
        self.ways.iter().map(|way| way.proxy.port()).collect()
    }

    /// Breaks and mends the proxies until `stop`, and leaves them without faults. Other processes are served
    /// meanwhile, so no end of an outage is recorded.
    pub(crate) fn break_until(mut self, stop: &AtomicBool) -> Self {
        while !stop.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(5));
            for way in &mut self.ways {
                way.tick();
            }
        }
        for way in &mut self.ways {
            way.heal();
        }
        self
    }
}

struct Way {
    proxy: FaultProxy,
    recorder: Recorder,
    random: Random,
    cuts: u64,
    now: Option<Fault>,
    /// The end of the fault, or the time of the next fault.
    next: Instant,
    /// The time at which held requests arrive.
    late: Option<Instant>,
}

impl Way {
    /// Runs the actions that are due.
    fn tick(&mut self) {
        let cuts = self.proxy.counters().cuts;
        for _ in self.cuts..cuts {
            self.recorder.note(Entry::Fault(Fault::Cut));
        }
        self.cuts = cuts;
        let now = Instant::now();
        if self.late.is_some_and(|late| late <= now) {
            self.deliver();
        }
        if self.next > now {
            return;
        }
        let calm = self.now.is_some();
        let lasts = if calm {
            self.lift();
            self.random.millis(400, 1400)
        } else {
            self.strike()
        };
        self.next = Instant::now() + lasts;
    }

    /// Sets a fault, and returns its duration.
    fn strike(&mut self) -> Duration {
        let fault = match self.random.below(100) {
            0..15 => Fault::Delayed,
            // These faults lose held requests.
            15..35 if self.late.is_none() => Fault::Severed,
            35..45 if self.late.is_none() => Fault::Frozen,
            45..55 if self.late.is_none() => Fault::Late,
            _ => Fault::Cut,
        };
        let delay = self.random.millis(10, 60);
        let bytes = usize::try_from(self.random.below(60)).unwrap_or(0);
        match fault {
            Fault::Cut => self.proxy.set_reply_cut(ReplyCut::Once(bytes)),
            Fault::Delayed => self.proxy.set_latency(delay, delay),
            Fault::Severed => self.proxy.sever(),
            Fault::Frozen => self.proxy.freeze(true),
            _ => self.proxy.hold(Hold::Open),
        }
        // Cuts and late requests are recorded when they have happened.
        if !matches!(fault, Fault::Cut | Fault::Late) {
            self.recorder.note(Entry::Fault(fault));
        }
        self.now = Some(fault);
        match fault {
            Fault::Severed => Duration::ZERO,
            Fault::Cut => Duration::from_millis(100),
            _ => self.random.millis(150, 350),
        }
    }

    fn lift(&mut self) {
        self.proxy.set_reply_cut(ReplyCut::Never);
        self.proxy.set_latency(Duration::ZERO, Duration::ZERO);
        match self.now.take() {
            Some(Fault::Frozen) => {
                self.proxy.freeze(false);
                // Swallowed bytes stay lost, so nothing sensible follows on these connections.
                self.proxy.sever();
            }
            Some(Fault::Late) => {
                // The senders go on over new connections, and their requests are still on the network.
                self.proxy.hold(Hold::None);
                self.proxy.sever_clients();
                self.late = Some(Instant::now() + self.random.millis(LATE.0, LATE.1));
            }
            _ => {}
        }
    }

    fn deliver(&mut self) {
        self.late = None;
        for _ in 0..self.proxy.deliver() {
            self.recorder.note(Entry::Fault(Fault::Late));
        }
    }

    /// Ends the current fault, and delivers held requests.
    fn heal(&mut self) {
        self.lift();
        self.deliver();
    }
}

/// The state at the start.
const CALM: Duration = Duration::from_millis(500);
/// The delay of requests, in milliseconds after their senders learned that their connections are gone.
const LATE: (u64, u64) = (4500, 6000);
