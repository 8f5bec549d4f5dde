//! `syncguard export`: the held locks as metrics for Prometheus.

#[cfg(feature = "ticks")]
use std::collections::HashSet;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use clap::Args;
use syncguard::LockInfo;
#[cfg(feature = "ticks")]
use syncguard::{
    DynBackend, Key, Timestamp,
    recipes::{Schedule, Ticks},
};

use super::listing::{self, Listing};
use super::lock_key::key_of;
#[cfg(feature = "ticks")]
use super::tick;
use crate::escape::escape_for_terminal;
use crate::exit::{Failure, Status};
use crate::holder;
use crate::output::Output;
#[cfg(feature = "ticks")]
use crate::run::schedule;
use crate::store::Store;
use crate::time::{since, until};

/// Prints the held locks once, as metrics in the text format of Prometheus
///
/// For the textfile collector of `node_exporter`, from cron or a timer. Write to a file beside the
/// one that is collected, and rename it:
///
/// `syncguard export > locks.tmp && mv locks.tmp locks.prom`
///
/// The labels show keys and holders. On Redis the listing scans all keys of the database, in small
/// steps. Ticks are exported for the keys that --tick names.
#[derive(Args)]
pub(crate) struct Options {
    /// Exports only keys with this prefix, which may end with a * [default: all keys]
    #[arg(default_value = "", hide_default_value = true)]
    prefix: String,
    /// Exports the ticks of a key too: the key, `=`, and the cron expression that `run --tick` was
    /// given; may be repeated
    #[cfg(feature = "ticks")]
    #[arg(long, value_name = "KEY=CRON", value_parser = parse_tick)]
    tick: Vec<(String, String)>,
    /// The time zone of all --tick, such as Europe/Berlin
    #[cfg(feature = "ticks")]
    #[arg(long, value_name = "ZONE", default_value = "UTC", requires = "tick")]
    tz: String,
}

#[cfg(feature = "ticks")]
fn parse_tick(text: &str) -> Result<(String, String), String> {
    let (key, cron) =
        text.rsplit_once('=').ok_or("a tick is KEY=CRON, as in 'nightly=0 3 * * *'")?;
    Ok((key.to_owned(), cron.trim().to_owned()))
}

pub(crate) async fn run(
    options: &Options,
    store: &Store,
    output: Output,
) -> Result<Status, Failure> {
    let prefix = listing::prefix(&options.prefix)?;
    #[cfg(feature = "ticks")]
    let ticks = schedules(options)?;
    let backend = store.connect().await?;
    let listing = listing::read(&backend, prefix).await?;
    if let Some(message) = listing::corrupt_message(&listing.corrupt) {
        output.error(message);
    }
    let metrics = as_metrics(&listing);
    #[cfg(feature = "ticks")]
    let metrics = metrics + &ticks_as_metrics(&ticks, &backend).await?;
    // A terminal obeys some characters, and a program must see the key as it is.
    let metrics = if io::stdout().is_terminal() {
        metrics.lines().fold(String::new(), |text, line| text + &escape_for_terminal(line) + "\n")
    } else {
        metrics
    };
    io::stdout().lock().write_all(metrics.as_bytes()).map_err(Failure::output)?;
    Ok(Status::SUCCESS)
}

fn as_metrics(listing: &Listing) -> String {
    let samples = |value: &dyn Fn(&LockInfo) -> String| -> Vec<String> {
        let sample = |info| {
            let (key, holder) = (quoted(&key_of(info)), quoted(&holder::name(info)));
            format!("{{key={key},holder={holder}}} {}", value(info))
        };
        listing.locks.iter().map(sample).collect()
    };
    let age = |info: &LockInfo| seconds(since(info.acquired_at));
    let left = |info: &LockInfo| seconds(until(info.expires_at));
    [
        family(
            "syncguard_lock_info",
            "1 for each lock that is held.",
            &samples(&|_| "1".to_owned()),
        ),
        family("syncguard_lock_age_seconds", "How long the lock has been held.", &samples(&age)),
        family(
            "syncguard_lock_expires_in_seconds",
            "The time until the lock expires, unless it is renewed.",
            &samples(&left),
        ),
        family(
            "syncguard_lock_records_corrupt",
            "How many records of locks cannot be read; such a lock never becomes free.",
            &[format!(" {}", listing.corrupt.len())],
        ),
    ]
    .concat()
}

/// The keys and the schedules of their ticks.
#[cfg(feature = "ticks")]
fn schedules(options: &Options) -> Result<Vec<(&str, Schedule)>, Failure> {
    let (mut keys, mut all) = (HashSet::new(), Vec::new());
    for (key, cron) in &options.tick {
        all.push((key.as_str(), schedule(cron, &options.tz)?));
        // Prometheus refuses a text with two samples of one name and key as a whole.
        if !keys.insert(Key::new(key.as_str())?) {
            return Err(Failure::usage("--tick names a key twice; a key has one schedule"));
        }
    }
    Ok(all)
}

/// Each metric has the time of a tick in the schedule, in seconds since 1970.
#[cfg(feature = "ticks")]
async fn ticks_as_metrics(
    ticks: &[(&str, Schedule)],
    backend: &DynBackend,
) -> Result<String, Failure> {
    if ticks.is_empty() {
        return Ok(String::new());
    }
    let (mut due, mut begun, mut done) = (Vec::new(), Vec::new(), Vec::new());
    for (key, schedule) in ticks {
        let label = format!("{{key={}}}", quoted(key));
        let value = |tick: Timestamp| format!("{label} {}", tick.as_millis() / 1000);
        let status = Ticks::new(backend.clone(), *key, schedule.clone()).status().await?;
        due.extend(tick::last_due(schedule, status.now, Duration::ZERO).map(value));
        begun.extend(status.last.map(|last| value(last.scheduled_at)));
        // A tick of the future hides that those before it do not run.
        let last = status.last.filter(|last| last.attempts.is_none() && status.ahead().is_none());
        done.extend(last.map(|last| value(last.scheduled_at)));
    }
    let (of_begun, of_done) =
        ("The last tick that has begun.", "The last tick that has begun, if it is done.");
    Ok([
        family("syncguard_tick_due_timestamp_seconds", "The last tick that was due.", &due),
        family("syncguard_tick_begun_timestamp_seconds", of_begun, &begun),
        family("syncguard_tick_done_timestamp_seconds", of_done, &done),
    ]
    .concat())
}

/// A metric: two lines about it, and a line for each sample.
fn family(name: &str, help: &str, samples: &[String]) -> String {
    let head = format!("# HELP {name} {help}\n# TYPE {name} gauge\n");
    samples.iter().fold(head, |text, sample| text + name + sample + "\n")
}

fn seconds(time: Duration) -> String {
    format!("{:.3}", time.as_secs_f64())
}

/// The value of a label, as the exposition format writes it.
fn quoted(value: &str) -> String {
    let escaped = value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
    format!("\"{escaped}\"")
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn values_of_labels_are_escaped_as_the_format_says() {
        assert_eq!(quoted("pay:日本"), "\"pay:日本\"");
        assert_eq!(quoted("a\"b\\c\nd"), r#""a\"b\\c\nd""#);
    }
}
