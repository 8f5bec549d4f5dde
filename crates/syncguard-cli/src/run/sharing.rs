//! `syncguard run --shared` and `--exclusive`: readers and writers of a key.

use clap::Args;

use crate::exit::Failure;

/// How many run at a time unless the user says so.
const DEFAULT_SLOTS: u32 = 16;

/// The variable that tells a command in which way it uses the lock.
pub(super) const VARIABLE: &str = "SYNCGUARD_SHARING";

#[derive(Args)]
#[expect(clippy::option_option, reason = "the option may be given without its number")]
pub(super) struct SharingOptions {
    /// Runs beside other commands with --shared on this key, and never beside one with --exclusive
    ///
    /// Up to N processes run at a time with --shared, 1 to 64, 16 unless given. If callers give different numbers,
    /// the store remembers the largest one, and --exclusive waits for that many. The lock of a key
    /// without these options is another lock. The command finds `shared` or `exclusive` in
    /// `SYNCGUARD_SHARING`.
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=64), group = "sharing")]
    #[arg(conflicts_with_all = ["permits", "max_hold", "at_least"])]
    #[cfg_attr(feature = "ticks", arg(conflicts_with = "tick"))]
    shared: Option<Option<u32>>,
    /// Runs alone: waits for all commands with --shared on this key, and keeps new ones out
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=64), group = "sharing")]
    #[arg(conflicts_with_all = ["permits", "max_hold", "at_least"])]
    #[cfg_attr(feature = "ticks", arg(conflicts_with = "tick"))]
    exclusive: Option<Option<u32>>,
}

impl SharingOptions {
    /// # Errors
    ///
    /// Fails if the key is a number that seems to be meant for the option: `--shared 8` without `=`.
    pub(super) fn sharing(&self, key: &str) -> Result<Option<Sharing>, Failure> {
        let (writes, given) = match (self.shared, self.exclusive) {
            (Some(given), _) => (false, given),
            (None, Some(given)) => (true, given),
            (None, None) => return Ok(None),
        };
        let sharing = Sharing { writes, slots: given.unwrap_or(DEFAULT_SLOTS) };
        if given.is_none() && key.bytes().all(|byte| byte.is_ascii_digit()) {
            let name = sharing.name();
            return Err(Failure::usage(format!(
                "the key is the number {key}: write --{name}={key} KEY for {key} at a time, or \
                 --{name}={DEFAULT_SLOTS} {key} if the key is a number"
            )));
        }
        Ok(Some(sharing))
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
