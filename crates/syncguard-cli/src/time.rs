//! Durations and times, as people write and read them.

use std::time::{Duration, SystemTime};

use syncguard::Timestamp;

/// Parses "90s", "1m 30s" or "500ms".
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    if !text.is_empty() && text != "0" && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("a duration has a unit: {text}s, {text}m or {text}h"));
    }
    humantime::parse_duration(text)
        .map_err(|error| format!("{error}; durations look like 500ms, 90s, 5m or 1h 30m"))
}

/// Parses a duration, or a bare number of seconds, as in `flock -w 10`.
pub(crate) fn parse_wait(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let is_number = text.starts_with(|first: char| first.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    match text.parse::<f64>() {
        Ok(seconds) if is_number => {
            Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
        }
        _ => parse_duration(text),
    }
}

/// Formats a duration with at most two units: the milliseconds of an hour do not matter.
pub(crate) fn human(duration: Duration) -> String {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let unit = match millis {
        ..1000 => 1,
        1000..10_000 => 100,
        10_000..3_600_000 => 1000,
        3_600_000..86_400_000 => 60_000,
        _ => 3_600_000,
    };
    let text = humantime::format_duration(Duration::from_millis(millis / unit * unit)).to_string();
    text.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

/// The time from now, by this machine's clock, to a time of the store; zero if that is past.
pub(crate) fn until(time: Timestamp) -> Duration {
    Duration::from_millis(time.as_millis()).saturating_sub(now())
}

/// The time since a time of the store, by this machine's clock.
pub(crate) fn since(time: Timestamp) -> Duration {
    now().saturating_sub(Duration::from_millis(time.as_millis()))
}

/// "2026-11-22T09:33:07Z"
pub(crate) fn utc(time: Timestamp) -> String {
    // The last millisecond that the format can show.
    const YEAR_9999: u64 = 253_402_300_799_999;
    if time.as_millis() > YEAR_9999 {
        return "after the year 9999".to_owned();
    }
    let time = SystemTime::UNIX_EPOCH + Duration::from_millis(time.as_millis());
    humantime::format_rfc3339_seconds(time).to_string()
}

/// The time of this machine's clock, as [`utc`] shows it.
#[cfg(feature = "terminal")]
pub(crate) fn utc_now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}

/// The time since 1970, by this machine's clock.
pub(crate) fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_a_unit() {
        assert_eq!(parse_duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration("1h 30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(parse_duration("0"), Ok(Duration::ZERO));
        assert_eq!(parse_duration("5").unwrap_err(), "a duration has a unit: 5s, 5m or 5h");
        for bad in ["", "s", "5x", "-1s", "1.5"] {
            assert!(parse_duration(bad).unwrap_err().contains("look like 500ms"), "{bad}");
        }
    }

    #[test]
    fn a_bare_number_to_wait_is_in_seconds() {
        for (text, millis) in [("10", 10_000), ("0.5", 500), ("0", 0), ("10s", 10_000)] {
            assert_eq!(parse_wait(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for bad in ["", "1.2.3", ".", "-1", "inf", "1e3", &"9".repeat(40)] {
            assert!(parse_wait(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn times_have_four_digits_for_the_year() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59Z"),
            (253_402_300_800_000, "after the year 9999"),
            (9_007_199_254_740_991, "after the year 9999"),
        ] {
            assert_eq!(utc(Timestamp::from_millis(millis).unwrap()), text);
        }
    }

    #[test]
    fn people_read_two_units() {
        for (millis, text) in [
            (0, "0s"),
            (7, "7ms"),
            (1_234, "1s 200ms"),
            (59_999, "59s"),
            (61_001, "1m 1s"),
            (3_661_000, "1h 1m"),
            (90_061_000, "1day 1h"),
            (9_007_197_459_296_000, "285420years 10months"),
        ] {
            assert_eq!(human(Duration::from_millis(millis)), text);
        }
    }
}
