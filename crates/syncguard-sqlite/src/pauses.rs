//! Pauses while another process writes.

use std::time::Duration;

use syncguard_core::authoring::pause::jittered;

/// How long to wait before the next try to write.
#[derive(Default)]
pub(crate) struct Pauses(u32);

impl Pauses {
    pub(crate) fn next(&mut self) -> Duration {
        const SHORTEST: Duration = Duration::from_micros(100);
        const LONGEST: Duration = Duration::from_millis(3);
        let pause = SHORTEST.saturating_mul(1 << self.0.min(8)).min(LONGEST);
        self.0 += 1;
        jittered(pause)
    }
}
