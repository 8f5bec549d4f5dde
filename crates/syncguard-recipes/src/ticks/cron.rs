//! Cron expressions with a time zone.

use std::fmt;
use std::sync::Arc;

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
        let parsed: croner::Cron = expression.parse().map_err(|error| {
            let message =
                "the cron expression is not valid; five fields are allowed, or six with seconds";
            LockError::invalid_argument(message).with_source(&error)
        })?;
        let zone = TimeZone::get(zone).map_err(|error| {
            let message =
                "the time zone is not known; names such as Europe/Berlin and UTC are allowed";
            LockError::invalid_argument(message).with_source(&error)
        })?;
        let times = [&parsed.pattern.hours, &parsed.pattern.minutes, &parsed.pattern.seconds];
        let is_fixed = !times.iter().any(|field| field.from_wildcard);
        let cron = Self { expression: Arc::new(parsed), zone, is_fixed };
        // 31 February, say.
        if cron.next_after(0).is_none() {
            return Err(LockError::invalid_argument("the cron expression is never due"));
        }
        Ok(cron)
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

    fn zoned(&self, seconds: u64) -> Option<Zoned> {
        let time = Timestamp::from_second(i64::try_from(seconds).ok()?).ok()?;
        Some(time.to_zoned(self.zone.clone()))
    }
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
