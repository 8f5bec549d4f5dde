//! The options of this benchmark.

use std::time::Duration;

use anyhow::Result;

pub(crate) struct Options {
    shared: syncguard_bench::Options,
    /// The time of each row.
    pub(crate) time: Duration,
}

impl Options {
    pub(crate) fn parse() -> Result<Self> {
        let shared = syncguard_bench::Options::parse(&[], &["--seconds", "--store", "--row"])?;
        let time = match shared.value("--seconds") {
            Some(seconds) => Duration::from_secs(seconds.parse()?),
            None => shared.millis(3000, 10_000),
        };
        Ok(Self { shared, time })
    }

    /// True if a missed target ends the benchmark with an error.
    pub(crate) fn check(&self) -> bool {
        self.shared.check
    }

    pub(crate) fn wants_store(&self, store: &str) -> bool {
        self.shared.wants("--store", |only| only == store)
    }

    pub(crate) fn wants_row(&self, row: &str) -> bool {
        self.shared.wants("--row", |part| row.contains(part))
    }
}
