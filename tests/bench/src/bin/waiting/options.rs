//! The options of this benchmark.

use std::time::Duration;

use anyhow::Result;

pub(crate) struct Options {
    shared: syncguard_bench::Options,
    /// How long each row takes.
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

    /// Whether to end with an error if a target is missed.
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
