//! The cost of locks that are held or waited for while nothing happens.

use anyhow::Result;

use crate::Size;
use crate::probe::{Job, Probe};
use crate::rows::{Figures, What};
use crate::server::Kind;

/// Many locks, and a tenth of them with a waiter each.
pub(crate) async fn many(
    kind: Kind,
    probes: &[Probe],
    size: Size,
    figures: &mut Figures,
) -> Result<()> {
    for (state, probe) in probes.iter().enumerate() {
        for (work, count) in [("hold", size.locks), ("wait", size.locks / 10)] {
            let server = kind.start()?;
            let counter = server.counter().await?;
            let job = Job { seconds: size.seconds, ..Job::new(work, count) };
            let look = async || Ok((counter.read().await?, server.processor()?));
            let (cost, [before, after]) = probe.run_and_look(&server.url(), job, look).await?;
            let requests = (after.0 - before.0) as f64 / cost.seconds;
            let (server, client) = (after.1 - before.1, cost.processor);
            let [server, client] = [server, client].map(|time| time / cost.seconds * 1e3);
            let [requests_of, server_of, client_of] = if work == "hold" {
                figures.add(state, kind.name(), What::Lost, cost.lost)?;
                [What::RenewalRequests, What::RenewalServer, What::RenewalClient]
            } else {
                [What::WaitingRequests, What::WaitingServer, What::WaitingClient]
            };
            figures.add(state, kind.name(), requests_of, requests)?;
            figures.add(state, kind.name(), server_of, server)?;
            figures.add(state, kind.name(), client_of, client)?;
        }
    }
    Ok(())
}

/// One process that holds a lock, and one that waits for one.
pub(crate) async fn one(
    kind: Kind,
    probes: &[Probe],
    size: Size,
    figures: &mut Figures,
) -> Result<()> {
    for (work, what) in [("hold", What::HolderWakes), ("wait", What::WaiterWakes)] {
        for (state, probe) in probes.iter().enumerate() {
            let server = kind.start()?;
            let job = Job { seconds: size.seconds, ..Job::new(work, 1) };
            let cost = probe.run(&server.url(), job).await?;
            figures.add(state, kind.name(), what, cost.switches / cost.seconds)?;
        }
    }
    Ok(())
}
