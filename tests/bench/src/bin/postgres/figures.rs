//! The results of a round.

use std::time::Duration;

use serde_json::{Value as Json, json};

pub(crate) struct Figures {
    pub(crate) per_second: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

impl Figures {
    pub(crate) fn new(mut micros: Vec<f64>, time: Duration) -> Self {
        micros.sort_by(f64::total_cmp);
        let part = |part: usize| micros.get(micros.len() * part / 100).copied().unwrap_or(f64::NAN);
        Self { per_second: micros.len() as f64 / time.as_secs_f64(), p50: part(50), p99: part(99) }
    }

    /// The median of each figure.
    pub(crate) fn median(rounds: Vec<Self>) -> Self {
        let middle = |figure: fn(&Self) -> f64| {
            let mut all: Vec<f64> = rounds.iter().map(figure).collect();
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        Self {
            per_second: middle(|round| round.per_second),
            p50: middle(|round| round.p50),
            p99: middle(|round| round.p99),
        }
    }

    pub(crate) fn json(&self, way: &str, concurrency: usize, latency_ms: u64) -> Json {
        json!({
            "way": way, "concurrency": concurrency, "added_latency_ms": latency_ms,
            "per_second": self.per_second, "p50_us": self.p50, "p99_us": self.p99,
        })
    }
}
