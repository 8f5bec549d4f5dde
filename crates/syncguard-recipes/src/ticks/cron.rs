//! Cron expressions with a time zone.

use std::fmt;
use std::sync::Arc;

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use syncguard_core::LockError;

/// A cron expression in a time zone. Times are whole seconds since the Unix epoch.
#[derive(Clone)]
pub(super) struct Cron {
    expression: Arc<croner::Cron>,
    zone: TimeZone,
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
        let cron = Self { expression: Arc::new(parsed), zone };
        // 31 February, say.
        if cron.next_after(0).is_none() {
            return Err(LockError::invalid_argument("the cron expression is never due"));
        }
        Ok(cron)
    }

    pub(super) fn next_after(&self, seconds: u64) -> Option<u64> {
        unix(&self.expression.find_next_occurrence(&self.zoned(seconds)?, false).ok()?)
    }

    pub(super) fn last_until(&self, seconds: u64) -> Option<u64> {
        unix(&self.expression.find_previous_occurrence(&self.zoned(seconds)?, true).ok()?)
    }

    fn zoned(&self, seconds: u64) -> Option<Zoned> {
        let time = Timestamp::from_second(i64::try_from(seconds).ok()?).ok()?;
        Some(time.to_zoned(self.zone.clone()))
    }
}

fn unix(time: &Zoned) -> Option<u64> {
    u64::try_from(time.timestamp().as_second()).ok()
}

impl fmt::Debug for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let zone = self.zone.iana_name().unwrap_or_default();
        f.debug_tuple("Cron").field(&self.expression.as_str()).field(&zone).finish()
    }
}
