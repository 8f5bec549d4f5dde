//! Polling. The error says what was waited for and what was last seen.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

/// Polls until `probe` answers `true`. A failed probe counts as "not yet"; the error has its last failure.
pub fn until(what: &str, timeout: Duration, mut probe: impl FnMut() -> Result<bool>) -> Result<()> {
    let started = Instant::now();
    loop {
        let seen = match probe() {
            Ok(true) => return Ok(()),
            Ok(false) => anyhow!("{what}: not yet"),
            Err(error) => error,
        };
        if started.elapsed() >= timeout {
            return Err(seen.context(format!("waited {timeout:?} for {what}")));
        }
        // Many probes start a program, so they become rare where the wait is long.
        thread::sleep((started.elapsed() / 8).clamp(SHORTEST, LONGEST));
    }
}

const SHORTEST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_millis(50);
