//! `syncguard tick`: the last and the next tick of a key.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use syncguard::Timestamp;
use syncguard::recipes::{Schedule, StartedTick, TickStatus, Ticks};

use super::listing;
use crate::exit::{Failure, Status};
use crate::holder;
use crate::output::print_as;
use crate::run::schedule;
use crate::store::Store;
use crate::time::{human, parse_duration, utc};

/// Shows the last tick of a key that began, and the next one
///
/// With --exit-code, for monitoring: status 75 if a tick is overdue, which means that the last tick
/// that was due before the grace has not begun, or is not done; also if the last tick is in the
/// future, because a clock was wrong when it began. The store's clock decides, not this machine's.
/// Only `run --tick` itself may decide whether a tick runs.
#[derive(Args)]
pub(crate) struct Options {
    /// The key that `run --tick` was given
    key: String,
    /// The cron expression, for the next tick and for the last one that was due
    #[arg(long, value_name = "CRON")]
    tick: Option<String>,
    /// The time zone of --tick, such as Europe/Berlin
    #[arg(long, value_name = "ZONE", default_value = "UTC", requires = "tick")]
    tz: String,
    /// Ends with status 75 if a tick is overdue, or if the last one is in the future
    #[arg(long, short, requires = "tick")]
    exit_code: bool,
    /// How long after its time a tick has to be done; shorter than the time between two ticks
    #[arg(long, value_name = "DURATION", default_value = "5m", requires = "tick")]
    #[arg(value_parser = parse_duration)]
    grace: Duration,
    /// Prints one line of JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(options: &Options, store: &Store) -> Result<Status, Failure> {
    let schedule = match &options.tick {
        Some(expression) => schedule(expression, &options.tz)?,
        // The state needs no schedule. The next tick is not shown.
        None => Schedule::every(Duration::from_secs(1))?,
    };
    let ticks = Ticks::new(store.connect().await?, options.key.as_str(), schedule.clone());
    let mut status = ticks.status().await?;
    status.next = status.next.filter(|_| options.tick.is_some());
    let due = last_due(&schedule, status.now, options.grace).filter(|_| options.tick.is_some());
    let overdue = due.filter(|due| is_overdue(status.last, *due));
    print_as(
        options.json,
        || as_json(options, &status, overdue),
        || as_text(options, &schedule, &status, overdue),
    )?;
    let is_alert = options.exit_code && (overdue.is_some() || status.ahead().is_some());
    Ok(if is_alert { Status::CONFLICT } else { Status::SUCCESS })
}

/// The last tick that was due this long before now.
pub(super) fn last_due(schedule: &Schedule, now: Timestamp, grace: Duration) -> Option<Timestamp> {
    let grace = u64::try_from(grace.as_millis()).ok()?;
    schedule.last_until(Timestamp::from_millis(now.as_millis().checked_sub(grace)?).ok()?)
}

/// Whether the tick that was due has not begun, or is not done. The store remembers only
/// the last tick that began.
fn is_overdue(last: Option<StartedTick>, due: Timestamp) -> bool {
    last.is_none_or(|last| {
        last.scheduled_at < due || last.scheduled_at == due && last.attempts.is_some()
    })
}

fn as_json(options: &Options, status: &TickStatus, overdue: Option<Timestamp>) -> Value {
    let last = status.last.map(|last| {
        let mut shown = json!({
            "scheduledAtMs": last.scheduled_at.as_millis(),
            "done": last.attempts.is_none(),
        });
        if let Some(attempts) = last.attempts {
            shown["attempts"] = json!(attempts);
        }
        shown
    });
    let mut shown = json!({ "key": options.key, "last": last });
    if let Some(ahead) = status.ahead() {
        shown["aheadMs"] = json!(u64::try_from(ahead.as_millis()).unwrap_or(u64::MAX));
    }
    if let Some(info) = &status.running {
        shown["running"] = listing::as_json(info, false);
    }
    if let Some(next) = status.next {
        shown["nextAtMs"] = json!(next.as_millis());
        shown["overdueSinceMs"] = json!(overdue.map(Timestamp::as_millis));
        shown["timeZoneData"] = json!(Schedule::time_zone_data());
    }
    shown
}

fn as_text(
    options: &Options,
    schedule: &Schedule,
    status: &TickStatus,
    overdue: Option<Timestamp>,
) -> String {
    let shown = |time| schedule.local_time(time).unwrap_or_else(|| utc(time));
    let mut lines = Vec::new();
    lines.push(match status.last {
        None => "last      none".to_owned(),
        Some(last) => {
            let state = match last.attempts {
                None => "done".to_owned(),
                Some(1) => "1 attempt began".to_owned(),
                Some(attempts) => format!("{attempts} attempts began"),
            };
            format!("last      {} ({state})", shown(last.scheduled_at))
        }
    });
    if let Some(info) = &status.running {
        let holder = holder::name(info);
        lines.push(format!("running   for {}, by {holder}", human(status.now - info.acquired_at)));
    }
    if let Some(next) = status.next {
        lines.push(format!("next      {} (in {})", shown(next), human(next - status.now)));
    }
    if options.tz != "UTC" {
        let data = Schedule::time_zone_data();
        lines.push(format!("zone      {}, by the data {data} in this program", options.tz));
    }
    if let Some(ahead) = status.ahead() {
        lines.push(format!(
            "ahead     by {}: a clock was wrong when the last tick began. No tick of this key begins until then, and nothing lowers its counter: give all processes another key, or wait",
            human(ahead)
        ));
    }
    if let Some(due) = overdue {
        let state = match status.last {
            None => "no tick of this key has ever begun. Is the key right?",
            Some(last) if last.scheduled_at == due => "it is not done",
            Some(_) => "it has not begun",
        };
        lines.push(format!("overdue   {} (for {}: {state})", shown(due), human(status.now - due)));
    }
    lines.join("\n")
}
