//! Asks the members for their time and for their cluster.
//!
//! No call of etcd tells the server's time. The `Date` of an answer over HTTP does, in whole seconds. A request at the
//! moment at which a member's second is expected to change halves what is unknown of its clock: five of them lead from a
//! second to some 30 ms, and one or two in each half minute keep the bounds below 100 ms.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, UNIX_EPOCH};

use syncguard_core::authoring::{
    FailureSubject, Fault, OutageLog, ServerTime, StoreClock, StoreTime,
};
use syncguard_core::contract::TIME_TOLERANCE;
use syncguard_core::{ErrorCode, LockError};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::members::Members;

pub(crate) struct ClockProbe {
    pub(crate) clock: StoreClock,
    members: Arc<Members>,
    /// The longest that one request may take.
    timeout: Duration,
    /// False in tests that count requests.
    is_on: bool,
    /// When the last measurement began.
    began: Mutex<Option<Instant>>,
    waits: tokio::sync::Mutex<Waits>,
    /// How often in a row a majority told no time, or different ones, although calls were answered.
    untold: AtomicU32,
    unknown: OutageLog,
    /// For each member, whether its clock is far off the others'.
    apart: Vec<OutageLog>,
}

/// When operations wait for answers.
#[derive(Default)]
struct Waits {
    /// From then on; `None` at once.
    from: Option<Instant>,
    /// How many calls had been answered when one has waited last.
    heard: u64,
}

impl ClockProbe {
    /// The bounds of a clock widen by 2 ms a second.
    const EVERY: Duration = Duration::from_secs(25);
    const PROBES: u32 = 9;
    /// Bounds that are this near to each other are good enough.
    const EXACT: Duration = Duration::from_millis(40);
    /// From this width on, as after an hour without use, an operation waits for new answers.
    const UNKNOWN: Duration = Duration::from_secs(2);
    /// Lost answers are no proof that the time cannot be had.
    pub(crate) const UNTOLD: u32 = 4;

    pub(crate) fn new(
        members: Arc<Members>,
        clock: StoreClock,
        timeout: Duration,
        is_on: bool,
    ) -> Self {
        Self {
            clock,
            timeout,
            is_on,
            began: Mutex::default(),
            waits: tokio::sync::Mutex::default(),
            untold: AtomicU32::new(0),
            unknown: OutageLog::default(),
            apart: vec![OutageLog::default(); members.count()],
            members,
        }
    }

    /// The store's time. An operation waits for one answer of a majority if it is not known, and the bounds are narrowed in
    /// the background while the backend is used.
    ///
    /// # Errors
    ///
    /// `ServiceUnavailable` while it is not known whether the members tell their time, and `Internal` for a clock that is out
    /// of range.
    pub(crate) async fn time(self: &Arc<Self>) -> Result<StoreTime, Fault> {
        let mut time = self.clock.now()?;
        if !self.is_on {
            return Ok(time);
        }
        if !is_known(time) {
            self.wait().await;
            time = self.clock.now()?;
        }
        self.keep_fresh();
        if is_known(time) {
            let _ = self.unknown.ends();
        } else if self.untold.load(Ordering::Relaxed) < Self::UNTOLD
            || !time.is_told && time.width() >= Self::UNKNOWN && self.is_told_by_few()
        {
            let says = "a majority of etcd's members in the URL has not told its time yet, and this machine's clock differs";
            let error = LockError::new(ErrorCode::ServiceUnavailable, says);
            return Err(Fault::new(error, FailureSubject::Server));
        } else if self.unknown.begins() {
            let (width_ms, is_told) = (time.width().as_millis(), time.is_told);
            tracing::warn!(
                width_ms,
                is_told,
                "a majority of etcd's members tells no time, or different ones: locks go by this machine's clock, or end late"
            );
        }
        Ok(time)
    }

    /// Whether some member tells the time: if this machine's clock differs, nobody knows which of the two is right.
    fn is_told_by_few(&self) -> bool {
        (0..self.members.count()).any(|member| self.clock.shown_by(member).is_some())
    }

    /// The time for a strict backend. To take a lock over, it waits until the bounds are narrower than the tolerance, for which
    /// a second answer is enough.
    pub(crate) async fn strict_time(
        self: &Arc<Self>,
        takes_over: bool,
    ) -> Result<StoreTime, Fault> {
        let ends = Instant::now() + Duration::from_secs(1) + self.timeout;
        loop {
            let time = self.time().await?;
            let checked = time.check(takes_over);
            if checked.is_ok() || !time.is_told || !self.is_on || Instant::now() >= ends {
                return Ok(checked.map(|()| time)?);
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Asks each member, until a majority has answered.
    async fn wait(self: &Arc<Self>) {
        let is_known = || self.clock.now().is_ok_and(is_known);
        let mut waits = self.waits.lock().await;
        if is_known() || waits.from.is_some_and(|from| Instant::now() < from) {
            return;
        }
        let mut asking = JoinSet::new();
        for member in 0..self.members.count() {
            let probe = Arc::clone(self);
            asking.spawn(async move { probe.ask(member).await });
        }
        while !is_known() && asking.join_next().await.is_some() {}
        let heard = std::mem::replace(&mut waits.heard, self.members.current.heard());
        if is_known() {
            self.untold.store(0, Ordering::Relaxed);
        } else if waits.heard > heard
            && self.untold.fetch_add(1, Ordering::Relaxed) + 1 >= Self::UNTOLD
        {
            waits.from = Some(Instant::now() + Self::EVERY);
        }
    }

    /// Measures in the background, from time to time.
    fn keep_fresh(self: &Arc<Self>) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let now = Instant::now();
        let mut began = self.began.lock().unwrap_or_else(PoisonError::into_inner);
        if began.is_none_or(|began| now.duration_since(began) >= Self::EVERY) {
            *began = Some(now);
            drop(began);
            for member in 0..self.members.count() {
                runtime.spawn(narrow(Arc::downgrade(self), member));
            }
        }
    }

    /// Asks a member for its time and its cluster. `None` if it does not tell its time.
    async fn ask(&self, member: usize) -> Option<()> {
        let (sent, answer) = timeout(self.timeout, self.members.ask(member)).await.ok()??;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        // An operation that waits for the time also waits for the cluster, so that comes first.
        if let Some(cluster) = cluster_id(body) {
            self.members.tells(member, cluster);
        }
        let unix_micros = unix_second(head)?.checked_mul(1_000_000)?;
        self.clock.hears(member, sent, ServerTime { unix_micros, unit_micros: 1_000_000 });
        let apart = self.apart.get(member)?;
        match self.clock.drift_of(member) {
            Some(drift) if drift.at_least() >= TIME_TOLERANCE => {
                if apart.begins() {
                    let (member, ahead_ms) = (self.members.name(member), drift.millis());
                    tracing::error!(member, ahead_ms, "the clock of a member of etcd is wrong");
                }
            }
            _ => {
                let _ = apart.ends();
            }
        }
        Some(())
    }
}

fn is_known(time: StoreTime) -> bool {
    time.is_told && time.width() < ClockProbe::UNKNOWN
}

/// Measures the clock of a member until the bounds are narrow, the time is not told, or the backend is gone.
pub(crate) async fn narrow(probe: Weak<ClockProbe>, member: usize) {
    let width = |time: Option<StoreTime>| time.map_or(Duration::MAX, StoreTime::width);
    for _ in 0..ClockProbe::PROBES {
        let Some(before) = probe.upgrade().map(|it| it.clock.shown_by(member)) else { return };
        if width(before) <= ClockProbe::EXACT {
            return;
        }
        sleep(before.map_or(Duration::ZERO, until_the_second)).await;
        let Some(strong) = probe.upgrade() else { return };
        if strong.ask(member).await.is_none() {
            drop(strong);
            sleep(Duration::from_secs(1)).await;
            continue;
        }
        let after = width(strong.clock.shown_by(member));
        if after >= width(before) && after < 5 * ClockProbe::EXACT {
            // The network is too slow for narrower bounds.
            return;
        }
    }
}

/// How long until a clock's second changes, by the middle of its bounds.
fn until_the_second(shown: StoreTime) -> Duration {
    let middle = u64::midpoint(shown.earliest.as_millis(), shown.latest.as_millis());
    Duration::from_millis(1000 - middle % 1000)
}

/// The `Date` in the head of an answer over HTTP.
fn unix_second(head: &str) -> Option<i64> {
    let date = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("date").then(|| value.trim())
    })?;
    let since = httpdate::parse_http_date(date).ok()?.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_secs()).ok()
}

/// The id of the cluster in the JSON of a member's status.
fn cluster_id(body: &str) -> Option<u64> {
    let status: serde_json::Value = serde_json::from_str(body).ok()?;
    status.get("header")?.get("cluster_id")?.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_and_the_cluster_are_found() {
        let head = "HTTP/1.0 200 OK\r\ndate: Thu, 26 Nov 2026 15:04:51 GMT";
        assert_eq!(unix_second(head), Some(1_795_705_491));
        assert_eq!(unix_second("HTTP/1.0 200 OK\r\nDate: 26.11.2026"), None);
        assert_eq!(unix_second("HTTP/1.0 200 OK"), None);
        let body = r#"{"header":{"cluster_id":"16762301333198873729","revision":"1"}}"#;
        assert_eq!(cluster_id(body), Some(16_762_301_333_198_873_729));
        assert_eq!(cluster_id("404 page not found"), None);
    }
}
