//! Measures how far this machine's clock is off the members'.
//!
//! No call of etcd tells the server's time. The `Date` of an answer over HTTP does, in whole seconds. A request at the
//! moment at which the server's second is expected to change halves what is unknown: nine of them lead from a second to
//! some ten milliseconds.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, UNIX_EPOCH};

use syncguard_core::authoring::{DriftGauge, ServerTime};
use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep, timeout};

use crate::members::Members;

pub(crate) struct ClockProbe {
    pub(crate) gauge: DriftGauge,
    members: Arc<Members>,
    /// The longest that one request may take.
    timeout: Duration,
    /// When the last measurement began.
    began: Mutex<Option<Instant>>,
    first: OnceCell<Option<Duration>>,
}

impl ClockProbe {
    /// The bounds of the drift widen by 1 ms a second.
    const EVERY: Duration = Duration::from_secs(60);
    const PROBES: u32 = 9;
    /// Bounds that are this near to each other are good enough.
    const EXACT_MILLIS: i64 = 40;

    pub(crate) fn new(members: Arc<Members>, gauge: DriftGauge, timeout: Duration) -> Self {
        Self { gauge, members, timeout, began: Mutex::default(), first: OnceCell::new() }
    }

    /// Measures in the background, at most once a minute.
    pub(crate) fn keep_fresh(self: &Arc<Self>) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let now = Instant::now();
        let mut began = self.began.lock().unwrap_or_else(PoisonError::into_inner);
        if began.is_none_or(|began| now.duration_since(began) >= Self::EVERY) {
            *began = Some(now);
            drop(began);
            runtime.spawn(narrow(Arc::downgrade(self)));
        }
    }

    /// Waits for the first answer: for operations that must know the drift. If the time cannot be reached, this waits once.
    pub(crate) async fn know(&self) {
        self.first.get_or_init(|| self.ask()).await;
    }

    /// One request, and how long until the server's second changes, by the middle of the bounds. `None` if the time is not
    /// told, or if the bounds are narrow enough.
    async fn ask(&self) -> Option<Duration> {
        let sent = self.gauge.sends();
        let answer = timeout(self.timeout, self.members.get("/version")).await.ok()??;
        let unix_micros = unix_second(&answer)?.checked_mul(1_000_000)?;
        self.gauge.take(&sent, ServerTime { unix_micros, unit_micros: 1_000_000 });
        let drift = self.gauge.drift()?;
        let (lowest, highest) = drift.bounds_millis();
        if highest - lowest <= Self::EXACT_MILLIS {
            return None;
        }
        let now = self.gauge.time().duration_since(UNIX_EPOCH).ok()?;
        let server = i64::try_from(now.as_millis()).ok()? - drift.millis();
        let left = u64::try_from(1000 - server.rem_euclid(1000)).ok()?;
        Some(Duration::from_millis(left))
    }
}

/// Measures until the bounds are narrow, the time is not told, or the backend is gone.
pub(crate) async fn narrow(probe: Weak<ClockProbe>) {
    for _ in 0..ClockProbe::PROBES {
        let Some(strong) = probe.upgrade() else { return };
        let Some(pause) = strong.ask().await else { return };
        drop(strong);
        sleep(pause).await;
    }
}

/// The `Date` in the head of an answer over HTTP.
fn unix_second(answer: &str) -> Option<i64> {
    let head = answer.split("\r\n\r\n").next()?;
    let date = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("date").then(|| value.trim())
    })?;
    let since = httpdate::parse_http_date(date).ok()?.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_secs()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_is_found_in_the_head() {
        let answer = "HTTP/1.0 200 OK\r\ndate: Thu, 26 Nov 2026 15:04:51 GMT\r\n\r\nDate: x";
        assert_eq!(unix_second(answer), Some(1_795_705_491));
        let body = "HTTP/1.0 200 OK\r\n\r\nDate: Thu, 01 Jan 1970 00:00:07 GMT";
        assert_eq!(unix_second(body), None);
        assert_eq!(unix_second("HTTP/1.0 200 OK\r\nDate: 26.11.2026\r\n\r\n"), None);
    }
}
