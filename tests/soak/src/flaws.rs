//! The flaws for the command line.

use clap::ValueEnum;
use syncguard_tests::fleet::Flaw;

/// See [`Flaw`].
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Planted {
    /// A key that somebody holds is granted once more
    SecondHolder,
    /// A fence is granted twice
    RepeatedFence,
    /// A lock that was released is released again
    EndlessRelease,
    /// A lock that is over is extended
    Undead,
    /// A release is confirmed and never sent
    Orphans,
}

impl From<Planted> for Flaw {
    fn from(planted: Planted) -> Self {
        match planted {
            Planted::SecondHolder => Self::SecondHolder,
            Planted::RepeatedFence => Self::RepeatedFence,
            Planted::EndlessRelease => Self::EndlessRelease,
            Planted::Undead => Self::Undead,
            Planted::Orphans => Self::Orphans,
        }
    }
}
