//! The finding about this machine's clock, on stores whose locks live by the clocks of the clients.

use syncguard::authoring::{ClockDrift, DriftLevel};

use super::finding::Finding;

pub(super) fn finding(drift: ClockDrift, store: &str) -> Finding {
    of(drift.level(), drift.millis(), store)
}

fn of(level: DriftLevel, millis: i64, store: &str) -> Finding {
    let side = if millis < 0 { "behind" } else { "ahead of" };
    let says = format!("this machine's clock is {} ms {side} {store}'s", millis.unsigned_abs());
    let mend = "sudo timedatectl set-ntp true (or: sudo chronyc makestep)";
    match level {
        DriftLevel::Fine => Finding::green("clock", says),
        DriftLevel::Warn => Finding::yellow("clock", says, mend),
        _ => Finding::red("clock", format!("{says}: locks may end early or late"), mend),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn a_clock_that_is_off_is_named() {
        for (level, shown) in [
            (DriftLevel::Fine, Level::Green),
            (DriftLevel::Warn, Level::Yellow),
            (DriftLevel::Block, Level::Red),
        ] {
            let finding = of(level, 700, "etcd");
            assert!(finding.level == shown && finding.says.contains("700 ms ahead of"));
        }
        assert!(of(DriftLevel::Block, -700, "etcd").says.contains("700 ms behind etcd's"));
    }
}
