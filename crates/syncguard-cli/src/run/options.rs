//! The options of `syncguard run`.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use clap::{Args, ValueEnum};
use syncguard::{AutoExtend, LockConfig};

use super::request::LockRequest;
use super::sharing::SharingOptions;
use crate::exit::Failure;
use crate::lock_options::{HolderOptions, WaitOptions};
use crate::time::parse_duration;

/// Runs a command while holding a lock
///
/// Waits for the lock, runs the command, renews the lock while the command runs, and releases it.
/// The environment of the command has `SYNCGUARD_KEY`, `SYNCGUARD_FENCE` (15 digits, to send along
/// with writes), `SYNCGUARD_STORE` (without its password) and, with --permits and --shared,
/// `SYNCGUARD_SLOT`.
/// Signals are forwarded to the command.
///
/// The command runs in a process group of its own. The group is ended when the lock is lost, and
/// when syncguard itself is killed, or stopped until its lock has expired.
#[derive(Args)]
#[command(override_usage = "syncguard run [OPTIONS] <KEY> -- <COMMAND>...")]
#[command(after_help = "Example: syncguard run --no-wait nightly-report -- ./report.sh --all")]
pub(crate) struct Options {
    /// The name of the lock: callers with the same key on the same store exclude each other
    pub(super) key: String,
    /// The command and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    command: Vec<OsString>,
    #[command(flatten)]
    pub(super) waiting: WaitOptions,
    /// Goes on asking for this long while the store is away, instead of ending with status 69; a tick
    /// that is too late by then is not run
    #[arg(long, value_name = "DURATION", default_value = "0", hide_default_value = true)]
    #[arg(value_parser = parse_duration)]
    ride_out: Duration,
    /// How long the lock outlives a crash of this machine; it is renewed three times in this time
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    pub(super) ttl: Duration,
    /// The longest time to hold the lock; after that it counts as lost
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    max_hold: Option<Duration>,
    /// Keeps the lock at least this long, even if the command ends earlier: for jobs of several
    /// machines
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    at_least: Option<Duration>,
    /// Lets this many commands run at once, instead of one; all callers give the same number
    ///
    /// A caller that finds a permit held above its own number ends with status 64, and locks
    /// nothing. On Redis it checks the 64 permits above. A caller that gives a larger number than
    /// its rivals is not told. The permits of a key are independent of the lock with the same key.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    permits: Option<u32>,
    #[command(flatten)]
    sharing: SharingOptions,
    /// What happens to the command when the lock is lost; the exit status is 76 in any case
    #[arg(long, value_name = "WHAT", default_value = "term")]
    on_lost: OnLost,
    /// The time between SIGTERM and SIGKILL when the lock is lost
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    grace: Duration,
    #[command(flatten)]
    pub(super) holder: HolderOptions,
    // The last group: options after it would get its heading.
    #[cfg(feature = "ticks")]
    #[command(flatten)]
    pub(super) ticks: super::tick_options::TickOptions,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnLost {
    /// SIGTERM, and SIGKILL after the grace
    Term,
    /// SIGKILL at once
    Kill,
    /// The command continues: only for work that checks the fence itself
    Ignore,
}

/// The fate of the command when the lock is lost.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LossAction {
    /// The command gets SIGTERM, and SIGKILL after this time. Zero is SIGKILL at once.
    Terminate(Duration),
    Ignore,
}

impl Options {
    /// True if commands are run until a signal.
    #[cfg(feature = "log")]
    pub(crate) fn is_loop(&self) -> bool {
        #[cfg(feature = "ticks")]
        let is_loop = self.ticks.is_loop;
        #[cfg(not(feature = "ticks"))]
        let is_loop = false;
        is_loop
    }

    /// True if commands are run for the ticks of a schedule.
    pub(crate) fn has_schedule(&self) -> bool {
        #[cfg(feature = "ticks")]
        let has_schedule = self.ticks.tick.is_some();
        #[cfg(not(feature = "ticks"))]
        let has_schedule = false;
        has_schedule
    }

    /// # Errors
    ///
    /// Fails if an option is wrong, before anything is sent.
    pub(super) fn lock_request(&self) -> Result<LockRequest, Failure> {
        let mut auto_extend = AutoExtend::new();
        if let Some(max_hold) = self.max_hold {
            auto_extend = auto_extend.with_max_hold(max_hold);
        }
        let mut config = LockConfig::new(self.key.as_str())
            .with_ttl(self.ttl)
            .with_acquisition(self.waiting.acquisition())
            .with_auto_extend(auto_extend);
        if let Some(min_hold) = self.at_least {
            config = config.with_min_hold(min_hold);
        }
        config.check()?;
        if self.grace > WaitOptions::LONGEST {
            return Err(Failure::usage(
                "the grace is too long; at most 100 years are allowed, and 0s is SIGKILL at once",
            ));
        }
        if self.ride_out > WaitOptions::LONGEST {
            return Err(Failure::usage("--ride-out is too long; at most 100 years are allowed"));
        }
        Ok(LockRequest {
            config,
            permits: self.permits,
            sharing: self.sharing.sharing(&self.key)?,
            ride_out: self.ride_out,
            conflict: self.waiting.conflict_status(),
        })
    }

    pub(super) fn loss_action(&self) -> LossAction {
        match self.on_lost {
            OnLost::Term => LossAction::Terminate(self.grace),
            OnLost::Kill => LossAction::Terminate(Duration::ZERO),
            OnLost::Ignore => LossAction::Ignore,
        }
    }

    pub(super) fn program(&self) -> &OsStr {
        self.words().first().map_or(OsStr::new(""), OsString::as_os_str)
    }

    pub(super) fn arguments(&self) -> &[OsString] {
        self.words().get(1..).unwrap_or_default()
    }

    /// The command without the second `--` of `run -- KEY -- COMMAND`.
    fn words(&self) -> &[OsString] {
        match &*self.command {
            [dashes, command @ ..] if dashes == "--" => command,
            command => command,
        }
    }
}
