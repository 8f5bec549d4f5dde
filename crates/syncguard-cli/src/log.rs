//! What the library logs, on the standard error.

use std::io;

use tracing::Level;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Shows nothing, information, or everything. Drivers are not heard: what they log may hold keys.
pub(crate) fn show(verbosity: u8) {
    let level = match verbosity {
        0 => return,
        1 => Level::INFO,
        _ => Level::TRACE,
    };
    // Of all crates whose names begin so.
    let ours = Targets::new().with_target("syncguard", level);
    let lines =
        tracing_subscriber::fmt::layer().with_writer(io::stderr).with_ansi(false).without_time();
    tracing_subscriber::registry().with(lines.with_filter(ours)).init();
}
