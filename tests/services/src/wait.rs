//! Polling, with an error that tells what was waited for and what was last seen.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

/// Polls until `probe` answers `true`. A failing probe counts as "not yet"; its last error is
/// reported.
///
/// # Errors
///
/// When that takes longer than `timeout`.
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
        thread::sleep(PAUSE);
    }
}

const PAUSE: Duration = Duration::from_millis(10);
