//! The figures, and what they have to be.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use syncguard_bench::{Report, median};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    Instructions,
    ByHand,
    Advisory,
    InstructionsOfARefusal,
    InstructionsOfAnExtend,
    LogOfAnExtend,
    HotShare,
    Time,
    ClientTime,
    ServerTime,
    Throughput,
    Allocations,
    BytesAllocated,
    GuardTime,
    GuardAllocations,
    RenewalRequests,
    RenewalServer,
    RenewalClient,
    Lost,
    WaitingRequests,
    WaitingServer,
    WaitingClient,
    HolderWakes,
    WaiterWakes,
    BytesOfACounter,
}

/// The bound of a figure.
#[derive(Clone, Copy)]
enum Asked {
    Nothing,
    AtMost(f64),
    AtLeast(f64),
    /// Of the figure of the other state.
    PartAtMost(f64),
    PartAtLeast(f64),
}

use Asked::{AtLeast, AtMost, Nothing, PartAtLeast, PartAtMost};
use What::*;

/// The store, the figure and its bound.
const ROWS: &[(&str, What, Asked)] = &[
    ("redis", Instructions, PartAtMost(0.8)),
    ("redis", ByHand, Nothing),
    ("redis", InstructionsOfARefusal, PartAtMost(1.1)),
    ("redis", InstructionsOfAnExtend, PartAtMost(0.6)),
    ("redis", Time, PartAtMost(0.75)),
    ("redis", ClientTime, Nothing),
    ("redis", ServerTime, Nothing),
    ("redis", Throughput, PartAtLeast(1.3)),
    ("redis", Allocations, AtMost(45.0)),
    ("redis", BytesAllocated, AtMost(26_000.0)),
    ("redis", RenewalRequests, Nothing),
    ("redis", RenewalServer, PartAtMost(0.5)),
    ("redis", RenewalClient, PartAtMost(0.5)),
    ("redis", Lost, AtMost(0.0)),
    ("redis", WaitingRequests, PartAtMost(0.1)),
    ("redis", WaitingServer, Nothing),
    ("redis", WaitingClient, Nothing),
    ("redis", HolderWakes, PartAtMost(1.0)),
    ("redis", WaiterWakes, AtMost(3.0)),
    ("redis", BytesOfACounter, PartAtMost(1.0)),
    ("postgres", Instructions, PartAtMost(0.58)),
    ("postgres", ByHand, Nothing),
    ("postgres", Advisory, Nothing),
    ("postgres", InstructionsOfARefusal, PartAtMost(0.2)),
    ("postgres", InstructionsOfAnExtend, Nothing),
    ("postgres", LogOfAnExtend, PartAtMost(0.45)),
    ("postgres", HotShare, AtLeast(0.95)),
    ("postgres", Time, Nothing),
    ("postgres", ClientTime, Nothing),
    ("postgres", ServerTime, PartAtMost(0.8)),
    ("postgres", Throughput, Nothing),
    ("postgres", Allocations, Nothing),
    ("postgres", BytesAllocated, Nothing),
    ("postgres", RenewalRequests, AtMost(20.0)),
    ("postgres", RenewalServer, PartAtMost(0.12)),
    ("postgres", RenewalClient, PartAtMost(0.2)),
    ("postgres", Lost, AtMost(0.0)),
    ("postgres", WaitingRequests, PartAtMost(0.1)),
    ("postgres", WaitingServer, PartAtMost(0.05)),
    ("postgres", WaitingClient, Nothing),
    ("postgres", HolderWakes, PartAtMost(1.0)),
    ("postgres", WaiterWakes, AtMost(3.0)),
    ("postgres", BytesOfACounter, PartAtMost(0.75)),
    ("etcd", HolderWakes, PartAtMost(1.0)),
    ("etcd", WaiterWakes, AtMost(3.0)),
    ("sqlite", HolderWakes, PartAtMost(1.0)),
    ("sqlite", WaiterWakes, AtMost(3.0)),
    ("memory", GuardTime, AtMost(2.0)),
    ("memory", GuardAllocations, AtMost(3.0)),
];

impl What {
    fn title(self) -> &'static str {
        match self {
            Instructions => "acquire and release: server, instructions",
            ByHand => "the same by hand, without a fence: server, instructions",
            Advisory => "the same by advisory locks: server, instructions",
            InstructionsOfARefusal => "acquire of a held lock: server, instructions",
            InstructionsOfAnExtend => "extend: server, instructions",
            LogOfAnExtend => "extend: bytes of log",
            HotShare => "extend: part that changes no index",
            Time => "64 callers: client and server, µs of a cycle",
            ClientTime => "64 callers: client, µs of a cycle",
            ServerTime => "64 callers: server, µs of a cycle",
            Throughput => "64 callers: cycles a second",
            Allocations => "64 callers: allocations of a cycle",
            BytesAllocated => "64 callers: bytes that a cycle allocates",
            GuardTime => "guard over the backend: µs of a cycle",
            GuardAllocations => "guard over the backend: allocations of a cycle",
            RenewalRequests => "locks held and renewed: requests a second",
            RenewalServer => "locks held and renewed: server, ms a second",
            RenewalClient => "locks held and renewed: client, ms a second",
            Lost => "locks held and renewed: lost",
            WaitingRequests => "locks waited for: requests a second",
            WaitingServer => "locks waited for: server, ms a second",
            WaitingClient => "locks waited for: client, ms a second",
            HolderWakes => "a process that holds a lock: wake-ups a second",
            WaiterWakes => "a process that waits for a lock: wake-ups a second",
            BytesOfACounter => "bytes of a counter",
        }
    }
}

/// The figures of each state of the library, this one last.
pub(crate) struct Figures(Vec<BTreeMap<(&'static str, What), Vec<f64>>>);

impl Figures {
    pub(crate) fn new(states: usize) -> Self {
        Self(vec![BTreeMap::new(); states])
    }

    /// The number of this state.
    pub(crate) fn now(&self) -> usize {
        self.0.len() - 1
    }

    /// Adds one of several figures, of which the median counts.
    pub(crate) fn add(
        &mut self,
        state: usize,
        store: &'static str,
        what: What,
        is: f64,
    ) -> Result<()> {
        let is_row = ROWS.iter().any(|row| (row.0, row.1) == (store, what));
        ensure!(is_row && is.is_finite(), "{store}, {what:?}: {is}");
        self.0[state].entry((store, what)).or_default().push(is);
        Ok(())
    }

    pub(crate) fn get(&self, state: usize, store: &str, what: What) -> Option<f64> {
        let (_, all) = self.0[state].iter().find(|(row, _)| **row == (store, what))?;
        Some(median(all.iter().copied()))
    }

    /// Prints each figure, and compares it with its bound.
    pub(crate) fn print(&self) -> Report {
        let (mut report, now) = (Report::default(), self.now());
        for &(store, what, asked) in ROWS {
            let Some(is) = self.get(now, store, what) else { continue };
            let was = self.get(0, store, what).filter(|_| now > 0);
            let part = was.filter(|was| *was > 0.0).map(|was| is / was);
            let title = format!("{store}, {}", what.title());
            let old = was.map(number).unwrap_or_default();
            let times = part.map(|part| format!("{part:.2}")).unwrap_or_default();
            println!("{title:<72} {old:>12} {:>12} {times:>6}", number(is));
            match (asked, part) {
                (AtMost(most), _) => report.at_most(&title, is, most),
                (AtLeast(least), _) => report.at_least(&title, is, least),
                (PartAtMost(most), Some(part)) => report.at_most(&title, part, most),
                (PartAtLeast(least), Some(part)) => report.at_least(&title, part, least),
                (Nothing | PartAtMost(_) | PartAtLeast(_), _) => {}
            }
        }
        report
    }
}

/// Three digits that count.
pub(crate) fn number(is: f64) -> String {
    if is.abs() < 100.0 {
        let text = format!("{is:.2}");
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    let unit = 10_f64.powf((is.abs().log10().floor() - 2.0).max(0.0));
    let digits = format!("{:.0}", (is / unit).round() * unit);
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|it| std::str::from_utf8(it).unwrap_or_default())
        .collect();
    groups.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_three_digits_that_count() {
        for (is, text) in
            [(0.0, "0"), (0.666, "0.67"), (45.0, "45"), (104.4, "104"), (766_812.0, "767 000")]
        {
            assert_eq!(number(is), text);
        }
    }
}
