//! Measures how far this machine's clock is off the members'.
//!
//! No call of etcd tells the server's time. The `Date` of an answer over HTTP does, in whole seconds. A request at the
//! moment at which the server's second is expected to change halves what is unknown: nine of them lead from a second to
//! some ten milliseconds.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, UNIX_EPOCH};

use syncguard_core::authoring::{DriftGauge, SentAt, ServerTime};
use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep, timeout};

use crate::clock::Clock;
use crate::members::Members;

pub(crate) struct ClockProbe {
    gauge: DriftGauge,
    clock: Arc<Clock>,
    members: Arc<Members>,
    /// The longest that one request may take.
    timeout: Duration,
    /// When the last measurement began.
    began: Mutex<Option<Instant>>,
    first: OnceCell<()>,
}

impl ClockProbe {
    /// The bounds of the drift widen by 1 ms a second.
    const EVERY: Duration = Duration::from_secs(60);
    const PROBES: u32 = 9;
    /// Bounds that are this near to each other are good enough.
    const EXACT_MILLIS: i64 = 40;

    pub(crate) fn new(members: Arc<Members>, clock: Arc<Clock>, timeout: Duration) -> Self {
        let gauge = DriftGauge::new("etcd");
        Self { gauge, clock, members, timeout, began: Mutex::default(), first: OnceCell::new() }
    }

    pub(crate) fn gauge(&self) -> &DriftGauge {
        &self.gauge
    }

    /// Measures in the background, at most once a minute.
    pub(crate) fn keep_fresh(self: &Arc<Self>) {
        let now = Instant::now();
        let mut began = self.began.lock().unwrap_or_else(PoisonError::into_inner);
        let is_fresh = began.is_some_and(|began| now.duration_since(began) < Self::EVERY);
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if !is_fresh {
            *began = Some(now);
            drop(began);
            runtime.spawn(narrow(Arc::downgrade(self)));
        }
    }

    /// Waits for the first answer: for operations that must know the drift. If the time cannot be reached, this waits once.
    pub(crate) async fn know(&self) {
        let ask = async || {
            let _ = self.ask().await;
        };
        self.first.get_or_init(ask).await;
    }

    /// One request, and how long to wait before the next one, if there should be one.
    async fn step(&self) -> Option<Duration> {
        self.ask().await?;
        self.pause()
    }

    /// One request.
    async fn ask(&self) -> Option<()> {
        let sent = SentAt::now((self.clock)());
        let second = timeout(self.timeout, self.members.date()).await.ok().flatten()?;
        let unix_micros = second.checked_mul(1_000_000)?;
        self.gauge.take(&sent, ServerTime { unix_micros, unit_micros: 1_000_000 });
        Some(())
    }

    /// How long until the server's second changes, by the middle of the bounds; `None` if they are narrow enough.
    fn pause(&self) -> Option<Duration> {
        let drift = self.gauge.drift()?;
        let (lowest, highest) = drift.bounds_millis();
        if highest - lowest <= Self::EXACT_MILLIS {
            return None;
        }
        let now = (self.clock)().duration_since(UNIX_EPOCH).ok()?;
        let server = i64::try_from(now.as_millis()).ok()? - drift.millis();
        let left = u64::try_from(1000 - server.rem_euclid(1000)).ok()?;
        Some(Duration::from_millis(left))
    }
}

/// Measures until the bounds are narrow, the time is not told, or the backend is gone.
pub(crate) async fn narrow(probe: Weak<ClockProbe>) {
    for _ in 0..ClockProbe::PROBES {
        let Some(strong) = probe.upgrade() else { return };
        let Some(pause) = strong.step().await else { return };
        drop(strong);
        sleep(pause).await;
    }
}
