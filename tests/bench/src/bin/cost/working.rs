//! The cost of an operation.

use anyhow::{Context as _, Result};
use syncguard_test_services::wait;

use crate::probe::{Job, Probe};
use crate::rows::{Figures, What};
use crate::server::{Kind, Server};
use crate::{Size, callgrind};

const CALLERS: usize = 64;

/// On a server of its own for each state of the library, since the states differ in their tables.
pub(crate) async fn measure(
    kind: Kind,
    probes: &[Probe],
    size: Size,
    figures: &mut Figures,
) -> Result<()> {
    let servers = probes.iter().map(|_| kind.start()).collect::<Result<Vec<_>>>()?;
    let all = || probes.iter().zip(&servers).enumerate();
    for (state, (probe, server)) in all() {
        if let Server::Postgres(server) = server {
            let (log, hot) = renewals(probe, server, size).await?;
            figures.add(state, kind.name(), What::LogOfAnExtend, log)?;
            figures.add(state, kind.name(), What::HotShare, hot)?;
        }
        let (callers, keys) = (8, 75 * size.cycles);
        let job = Job { callers, keys, ..Job::new("cycle", keys) };
        probe.run(&server.url(), job).await?;
        figures.add(state, kind.name(), What::BytesOfACounter, server.bytes_of_a_counter()?)?;
    }
    // By turns, so that other work of the machine affects all of them.
    for _ in 0..size.rounds {
        for (state, (probe, server)) in all() {
            let count = CALLERS * size.cycles;
            let job = Job { callers: CALLERS, keys: CALLERS, ..Job::new("cycle", count) };
            let look = async || server.processor();
            let (cost, [before, after]) = probe.run_and_look(&server.url(), job, look).await?;
            let count = count as f64;
            let (client, server) = (cost.processor / count * 1e6, (after - before) / count * 1e6);
            figures.add(state, kind.name(), What::ClientTime, client)?;
            figures.add(state, kind.name(), What::ServerTime, server)?;
            figures.add(state, kind.name(), What::Time, client + server)?;
            figures.add(state, kind.name(), What::Throughput, count / cost.seconds)?;
            figures.add(state, kind.name(), What::Allocations, cost.allocations / count)?;
            figures.add(state, kind.name(), What::BytesAllocated, cost.bytes / count)?;
        }
    }
    drop(servers);
    if !callgrind::is_installed() {
        println!("valgrind is not installed: no instructions are counted");
        return Ok(());
    }
    // On PostgreSQL a waiter asks in another way than a caller who has not heard yet that the lock is held.
    let refused = if kind == Kind::Postgres { "polled" } else { "refused" };
    for (work, what) in [
        ("cycle", What::Instructions),
        ("extend", What::InstructionsOfAnExtend),
        (refused, What::InstructionsOfARefusal),
    ] {
        for (state, probe) in probes.iter().enumerate() {
            let run =
                async |url: &str, count| probe.run(url, Job::new(work, count)).await.map(drop);
            figures.add(
                state,
                kind.name(),
                what,
                callgrind::of_one(kind, size.cycles, run).await?,
            )?;
        }
    }
    Ok(())
}

/// The bytes of log of an extend, and the part of the extends that change no index.
async fn renewals(
    probe: &Probe,
    server: &syncguard_test_services::postgres::PostgresServer,
    size: Size,
) -> Result<(f64, f64)> {
    let url = format!("{}?setup_schema=true", server.url());
    let (keys, count) = (100, 50 * size.cycles);
    let log =
        async || Ok(server.psql("SELECT pg_current_wal_insert_lsn() - '0/0'")?.parse::<f64>()?);
    let job = Job { keys, ..Job::new("extend", count) };
    let (_, [before, after]) = probe.run_and_look(&url, job, log).await?;
    let mut counted = (0.0, 0.0);
    // The session counts when it ends.
    wait::until("the end of a session", std::time::Duration::from_secs(30), || {
        let updates = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'syncguard_locks'";
        let updates = server.psql(updates)?;
        let (all, hot) = updates.split_once('|').context("two counts")?;
        counted = (all.parse()?, hot.parse()?);
        Ok(counted.0 >= count as f64)
    })?;
    Ok(((after - before) / count as f64, counted.1 / counted.0))
}

/// The cost of a guard over its backend, in memory.
pub(crate) async fn guard(probes: &[Probe], size: Size, figures: &mut Figures) -> Result<()> {
    for _ in 0..size.rounds {
        for (state, probe) in probes.iter().enumerate() {
            let count = 500 * size.cycles;
            let mut costs = [(0.0, 0.0); 2];
            for (work, (time, allocations)) in ["cycle", "guard"].into_iter().zip(&mut costs) {
                let cost = probe.run("memory:", Job::new(work, count)).await?;
                *time = cost.processor / count as f64 * 1e6;
                *allocations = cost.allocations / count as f64;
            }
            let [bare, guard] = costs;
            figures.add(state, "memory", What::GuardTime, guard.0 - bare.0)?;
            figures.add(state, "memory", What::GuardAllocations, guard.1 - bare.1)?;
        }
    }
    Ok(())
}
