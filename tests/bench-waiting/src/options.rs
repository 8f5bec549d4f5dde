//! What the bench is told.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};

pub(crate) struct Options {
    /// Whether to end with an error if a target is missed.
    pub(crate) check: bool,
    /// How long each row takes.
    pub(crate) time: Duration,
    store: Option<String>,
    row: Option<String>,
}

impl Options {
    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Self> {
        let mut this = Self { check: false, time: Duration::from_secs(10), store: None, row: None };
        let mut arguments = arguments.filter(|argument| argument != "--");
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().with_context(|| format!("{argument} what?"));
            match argument.as_str() {
                "--check" => this.check = true,
                "--quick" => this.time = Duration::from_secs(3),
                "--seconds" => this.time = Duration::from_secs(value()?.parse()?),
                "--store" => this.store = Some(value()?),
                "--row" => this.row = Some(value()?),
                _ => bail!(
                    "{argument}: there are --check, --quick, --seconds NUMBER, --store NAME and --row TEXT"
                ),
            }
        }
        Ok(this)
    }

    pub(crate) fn wants_store(&self, store: &str) -> bool {
        self.store.as_deref().is_none_or(|only| only == store)
    }

    pub(crate) fn wants_row(&self, row: &str) -> bool {
        self.row.as_deref().is_none_or(|part| row.contains(part))
    }
}
