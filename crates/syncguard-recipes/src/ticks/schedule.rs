//! The times at which ticks are due.

use std::time::Duration;

use syncguard_core::{LockError, Timestamp};

#[cfg(feature = "cron")]
use super::cron::Cron;

/// The times at which a tick is due. Each time is a whole second.
///
/// The processes of a key need the same schedule.
#[derive(Clone, Debug)]
pub struct Schedule(Kind);

#[derive(Clone, Debug)]
enum Kind {
    /// The period in seconds.
    Every(u64),
    #[cfg(feature = "cron")]
    Cron(Cron),
}

impl Schedule {
    /// One tick in each period, counted from the Unix epoch in UTC: a period of an hour is due at each full hour.
    ///
    /// ```
    /// use std::time::Duration;
    /// use syncguard_core::Timestamp;
    /// use syncguard_recipes::Schedule;
    ///
    /// let hourly = Schedule::every(Duration::from_secs(3600))?;
    /// let next = hourly.next_after(Timestamp::from_millis(1_780_000_000_000)?);
    /// assert_eq!(next.unwrap().to_string(), "2026-05-28T21:00:00.000Z");
    /// # Ok::<(), syncguard_core::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidArgument` unless the period is a whole number of seconds, from 1 s to 100 years.
    pub fn every(period: Duration) -> Result<Self, LockError> {
        let seconds = period.as_secs();
        if period.subsec_nanos() != 0 || seconds == 0 || seconds > 100 * 366 * 24 * 3600 {
            return Err(LockError::invalid_argument(format!(
                "the period of a schedule is {period:?}; whole seconds from 1 s to 100 years are allowed"
            )));
        }
        Ok(Self(Kind::Every(seconds)))
    }

    /// The times of a cron expression in a time zone, such as `0 3 * * *` in `Europe/Berlin`.
    ///
    /// An expression has five fields (minute, hour, day of the month, month, day of the week), or six with the seconds
    /// before them. Names such as `MON`, `@daily` and `@midnight` are allowed, and no field for a year.
    ///
    /// If both day fields are restricted, a day counts that fits **either** of them: `0 0 13 * 5` is due on each 13th and
    /// on each Friday. With a `+` before the day of the week, `0 0 13 * +5`, a day has to fit both. The cron of Debian and
    /// others means both without a `+`, if one of the fields begins with `*`, as in `0 0 */2 * 1`. This function logs a
    /// warning for such an expression: write `+1` for what cron does, and `1-31/2` for either.
    ///
    /// The zone is a name of the IANA database, such as `UTC`. Its data are part of the program, in the version that
    /// [`time_zone_data`](Self::time_zone_data) tells; those of the machine are not read. So processes of one build have
    /// the same ticks on all machines. Builds with different data may differ in zones whose rules have changed since,
    /// and then run a tick twice, at both of its times. In `UTC` nothing ever changes.
    ///
    /// When clocks change, the times are due as cron runs them. An expression without `*` in the hours, minutes and seconds,
    /// such as `0,30 2 * * *`, names fixed times. If clocks are set forward over fixed times, they are due at the end of the
    /// gap, as one tick; in an hour that is repeated, a fixed time is due once, in the first half. Any other expression,
    /// such as `*/30 2 * * *`, means intervals: nothing is due in the gap, and both halves have their ticks.
    ///
    /// ```
    /// use syncguard_core::Timestamp;
    /// use syncguard_recipes::Schedule;
    ///
    /// let nightly = Schedule::cron("0 3 * * *", "Europe/Berlin")?;
    /// let next = nightly.next_after(Timestamp::from_millis(1_780_000_000_000)?);
    /// assert_eq!(next.unwrap().to_string(), "2026-05-29T01:00:00.000Z");
    /// # Ok::<(), syncguard_core::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a bad expression, for an unknown zone, and for an expression that is never due.
    #[cfg(feature = "cron")]
    pub fn cron(expression: &str, zone: &str) -> Result<Self, LockError> {
        Cron::new(expression, zone).map(Kind::Cron).map(Self)
    }

    /// The version of the IANA time zone database in this program, such as `2026e`.
    #[cfg(feature = "cron")]
    #[must_use]
    pub fn time_zone_data() -> &'static str {
        super::cron::zone_data()
    }

    /// A time in the zone of the schedule, for people: `2026-11-22T10:33:07+01:00`. `None` after the year 9999, and for a
    /// schedule without a zone.
    #[cfg(feature = "cron")]
    #[must_use]
    pub fn local_time(&self, time: Timestamp) -> Option<String> {
        match &self.0 {
            Kind::Every(_) => None,
            Kind::Cron(cron) => cron.local(time.as_millis() / 1000),
        }
    }

    /// The first tick after this time; `None` if there is none before the year 9999.
    #[must_use]
    pub fn next_after(&self, time: Timestamp) -> Option<Timestamp> {
        let seconds = time.as_millis() / 1000;
        match &self.0 {
            Kind::Every(period) => at((seconds / period + 1).checked_mul(*period)?),
            #[cfg(feature = "cron")]
            Kind::Cron(cron) => at(cron.next_after(seconds)?),
        }
    }

    /// The last tick at this time or before it; `None` if there was none since 1970.
    #[must_use]
    pub fn last_until(&self, time: Timestamp) -> Option<Timestamp> {
        let seconds = time.as_millis() / 1000;
        let last = match &self.0 {
            Kind::Every(period) => seconds / period * period,
            #[cfg(feature = "cron")]
            Kind::Cron(cron) => cron.last_until(seconds)?,
        };
        at(last).filter(|last| last.as_millis() > 0)
    }
}

fn at(seconds: u64) -> Option<Timestamp> {
    Timestamp::from_millis(seconds.checked_mul(1000)?).ok()
}
