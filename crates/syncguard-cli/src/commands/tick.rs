//! `syncguard tick`: the last and the next tick of a key.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use syncguard::recipes::{Schedule, TickStatus, Ticks};

use super::listing;
use crate::exit::{Failure, Status};
use crate::holder;
use crate::output::{print, print_json};
use crate::run::schedule;
use crate::store::Store;
use crate::time::{human, since, until, utc};

/// Shows the last tick of a key that began, and the next one
///
/// This is for people: only `run --tick` itself may decide whether a tick runs.
#[derive(Args)]
pub(crate) struct Options {
    /// The key that `run --tick` was given
    key: String,
    /// The cron expression, for the next tick
    #[arg(long, value_name = "CRON")]
    tick: Option<String>,
    /// The time zone of --tick, such as Europe/Berlin
    #[arg(long, value_name = "ZONE", default_value = "UTC", requires = "tick")]
    tz: String,
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
    let ticks = Ticks::new(store.connect().await?, options.key.as_str(), schedule);
    let mut status = ticks.status().await?;
    status.next = status.next.filter(|_| options.tick.is_some());
    let printed =
        if options.json { print_json(&as_json(options, &status)) } else { print(as_text(&status)) };
    printed.map_err(Failure::output)?;
    Ok(Status::SUCCESS)
}

fn as_json(options: &Options, status: &TickStatus) -> Value {
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
    if let Some(info) = &status.running {
        shown["running"] = listing::as_json(info);
    }
    if let Some(next) = status.next {
        shown["nextAtMs"] = json!(next.as_millis());
    }
    shown
}

fn as_text(status: &TickStatus) -> String {
    let mut lines = Vec::new();
    lines.push(match status.last {
        None => "last      none".to_owned(),
        Some(last) => {
            let state = match last.attempts {
                None => "done".to_owned(),
                Some(1) => "1 attempt began".to_owned(),
                Some(attempts) => format!("{attempts} attempts began"),
            };
            format!("last      {} ({state})", utc(last.scheduled_at))
        }
    });
    if let Some(info) = &status.running {
        let holder = holder::name(info);
        lines.push(format!("running   for {}, by {holder}", human(since(info.acquired_at))));
    }
    if let Some(next) = status.next {
        lines.push(format!("next      {} (in {})", utc(next), human(until(next))));
    }
    lines.join("\n")
}
