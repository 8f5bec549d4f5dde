//! `syncguard run --shared` and `--exclusive`: readers and writers of a key.

use clap::Args;

/// The variable that tells a command in which way it uses the lock.
pub(super) const VARIABLE: &str = "SYNCGUARD_SHARING";

#[derive(Args)]
pub(super) struct SharingOptions {
    /// Runs beside other commands with --shared on this key, and never beside one with --exclusive
    ///
    /// Up to N processes run at a time with --shared, 1 to 64. If callers give different numbers,
    /// the store remembers the largest one, and --exclusive waits for that many. The lock of a key
    /// without these options is another lock. The command finds `shared` or `exclusive` in
    /// `SYNCGUARD_SHARING`.
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "16")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=64), group = "sharing")]
    #[arg(conflicts_with_all = ["permits", "max_hold", "at_least"])]
    #[cfg_attr(feature = "ticks", arg(conflicts_with = "tick"))]
    shared: Option<u32>,
    /// Runs alone: waits for all commands with --shared on this key, and keeps new ones out
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "16")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=64), group = "sharing")]
    #[arg(conflicts_with_all = ["permits", "max_hold", "at_least"])]
    #[cfg_attr(feature = "ticks", arg(conflicts_with = "tick"))]
    exclusive: Option<u32>,
}

impl SharingOptions {
    pub(super) fn sharing(&self) -> Option<Sharing> {
        let of = |writes: bool| move |slots| Sharing { writes, slots };
        self.shared.map(of(false)).or(self.exclusive.map(of(true)))
    }
}

/// A read or a write under a read/write lock.
#[derive(Clone, Copy)]
pub(super) struct Sharing {
    pub(super) writes: bool,
    pub(super) slots: u32,
}

impl Sharing {
    pub(super) const fn name(self) -> &'static str {
        if self.writes { "exclusive" } else { "shared" }
    }
}
