//! The finding about this machine's clock, on stores whose locks go by the store's time as the answers tell it.

use std::time::Duration;

use syncguard::authoring::ClockDrift;

use super::finding::Finding;

/// A tick that is later than this is not run by default.
const LATE: Duration = Duration::from_secs(10);

pub(super) fn finding(drift: ClockDrift, store: &str) -> Finding {
    of(drift.millis(), drift.at_least(), store)
}

fn of(millis: i64, at_least: Duration, store: &str) -> Finding {
    let side = if millis < 0 { "behind" } else { "ahead of" };
    let says = format!(
        "this machine's clock is {} ms {side} {store}'s, which decides about locks",
        millis.unsigned_abs()
    );
    if at_least < LATE {
        return Finding::green("clock", says);
    }
    Finding::yellow("clock", says, "set this machine's clock: ticks measure their lateness by it")
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn a_clock_that_is_off_is_named() {
        for (millis, level) in [(700, Level::Green), (9_000, Level::Green), (11_000, Level::Yellow)]
        {
            let finding = of(millis, Duration::from_millis(millis.unsigned_abs()), "etcd");
            assert_eq!(finding.level, level, "{millis}");
            assert!(finding.says.contains(&format!("{millis} ms ahead of etcd's")));
        }
        assert!(of(-700, Duration::ZERO, "etcd").says.contains("700 ms behind etcd's"));
    }
}
