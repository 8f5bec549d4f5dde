//! Whether waiters hear of releases by other processes.

use std::fmt;

/// Whether waiters hear of releases by other processes: see [`LockBackend::watch`](crate::LockBackend::watch).
///
/// Without signals waiting goes on by polling, and nothing but latency is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SignalStatus {
    /// They are turned off, or there is no way to hear them with these settings.
    Off,
    /// Nobody has waited lately, so nothing is known.
    #[default]
    Unused,
    /// They are heard.
    Working,
    /// They are not heard at the moment. It is tried again while somebody waits.
    Failing,
}

impl fmt::Display for SignalStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "off",
            Self::Unused => "unused",
            Self::Working => "working",
            Self::Failing => "failing",
        })
    }
}
