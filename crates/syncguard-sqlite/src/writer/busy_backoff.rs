//! Pauses while another process holds SQLite's write lock.

use std::time::Duration;

use syncguard_core::authoring::pause::jittered;

/// Gives the pauses between two tries to write, each longer than the one before.
#[derive(Default)]
pub(super) struct BusyBackoff(u32);

impl BusyBackoff {
    pub(super) fn next(&mut self) -> Duration {
        const SHORTEST: Duration = Duration::from_micros(100);
        const LONGEST: Duration = Duration::from_millis(3);
        let pause = SHORTEST.saturating_mul(1 << self.0.min(8)).min(LONGEST);
        self.0 += 1;
        jittered(pause)
    }
}
