//! Ticks of a process whose clock is wrong.

use anyhow::Result;
use syncguard_tests::ticks::{Clock, outlast_a_stepped_clock};

use crate::sqlite::support::File;

/// The file has no clock of its own: the wall clock of the machine decides when a tick may begin, which all processes of the
/// file share. So a process of its own wrong time, as here, is refused as by a server. If the clock of the machine itself is
/// set an hour ahead, the tick of that hour runs early, and after the clock is set right no tick runs until then. The locks
/// do not notice, because they live by the boot clock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_stepped_uses_up_no_tick() -> Result<()> {
    let file = File::new();
    let right = [file.open().await, file.open().await];
    outlast_a_stepped_clock(right, file.open().await, &Clock::default()).await
}
