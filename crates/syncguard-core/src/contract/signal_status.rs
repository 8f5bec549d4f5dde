//! The status of signals of releases by other processes.

use std::fmt;

/// The status of signals of releases by other processes: see [`LockBackend::watch`](crate::LockBackend::watch).
///
/// Without signals, waiters poll: only latency is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SignalStatus {
    /// Signals are turned off, or cannot be heard with these settings.
    Off,
    /// No caller has waited lately, so the status is not known.
    #[default]
    Unused,
    /// Signals are heard.
    Working,
    /// Signals are not heard at the moment. The backend tries again while a caller waits.
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

impl SignalStatus {
    /// The status of a backend that tells no more than whether it gives a watch.
    pub(crate) const fn of_watch(hears: bool) -> Self {
        if hears { Self::Working } else { Self::Off }
    }
}
