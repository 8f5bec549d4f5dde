//! The options of `syncguard run` for ticks.

use std::time::Duration;

use clap::{Args, ValueEnum};
use syncguard::recipes::{Missed, Schedule};

use crate::exit::Failure;
use crate::time::parse_duration;

#[derive(Args)]
#[command(next_help_heading = "Each tick once")]
pub(crate) struct TickOptions {
    /// Runs the command once for each tick of this cron expression, across all processes with this
    /// key
    ///
    /// The command runs for the tick that is due now, unless that tick was run before. The status
    /// is then 79 (see --conflict-exit-code); 80 if a clock is wrong, so that the tick is too early by
    /// the store's clock or the last tick is in the future, 81 if no tick is due, and otherwise 75 if
    /// an earlier tick or attempt still runs, or the pause after a failed attempt lasts. The command
    /// finds the time of the tick in `SYNCGUARD_TICK` and the number of the attempt in
    /// `SYNCGUARD_ATTEMPT`. An expression has five fields, or six with the seconds before them. If
    /// both day fields are restricted, either has to fit; with a + before the day of the week, as in
    /// `0 0 */2 * +1`, both.
    #[arg(long, value_name = "CRON")]
    #[arg(conflicts_with_all = ["wait", "max_hold", "at_least", "permits"])]
    pub(super) tick: Option<String>,
    /// The time zone of --tick, such as Europe/Berlin
    #[arg(long, value_name = "ZONE", default_value = "UTC", requires = "tick")]
    pub(super) tz: String,
    /// How many attempts a tick has in all, 1 to 999, the same for all processes with this key
    ///
    /// If the command fails, --loop makes another attempt. Without it, each start of this program
    /// makes one, so cron has to start it again within --max-lateness.
    #[arg(long, value_name = "N", default_value = "1", requires = "tick")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=999))]
    pub(super) attempts: u16,
    /// The pause after a failed attempt, for all processes with this key; it doubles with each attempt
    /// of the tick, up to an hour
    #[arg(long, value_name = "DURATION", default_value = "5s", requires = "tick")]
    #[arg(value_parser = parse_duration)]
    pub(super) retry_after: Duration,
    /// Which ticks are made up for that no process started in time
    #[arg(long, value_name = "WHICH", default_value = "skip", requires = "tick")]
    pub(super) missed: MissedTicks,
    /// How late a tick may begin [default: 1m; no limit with --missed last or each]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, requires = "tick")]
    pub(super) max_lateness: Option<Duration>,
    /// Goes on with the next tick, until SIGTERM or SIGINT: no cron is needed
    #[arg(long = "loop", requires = "tick")]
    pub(super) is_loop: bool,
}

impl TickOptions {
    /// How late a tick may begin; `None` if there is no limit.
    pub(super) fn lateness(&self) -> Option<Duration> {
        let is_skip = matches!(self.missed, MissedTicks::Skip);
        self.max_lateness.or(is_skip.then_some(Duration::from_secs(60)))
    }
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum MissedTicks {
    /// None
    Skip,
    /// The last one
    Last,
    /// Each one, oldest first
    Each,
}

impl From<MissedTicks> for Missed {
    fn from(missed: MissedTicks) -> Self {
        match missed {
            MissedTicks::Skip => Self::Skip,
            MissedTicks::Last => Self::Last,
            MissedTicks::Each => Self::Each,
        }
    }
}

/// The schedule of a cron expression in a time zone.
///
/// # Errors
///
/// Fails if the expression or the zone is not valid.
pub(crate) fn schedule(expression: &str, zone: &str) -> Result<Schedule, Failure> {
    Ok(Schedule::cron(expression, zone)?)
}
