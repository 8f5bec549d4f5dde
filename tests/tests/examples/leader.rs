//! `leader.rs` on Redis: one process leads at a time, whatever happens to the others.

use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;
use syncguard_test_services::process::ServerProcess;
use syncguard_test_services::redis::RedisServer;

use crate::examples::stage::{Stage, take};

const LEADER: &str = env!("CARGO_BIN_EXE_example-leader");

#[tokio::test]
async fn another_leads_after_a_crash_a_stop_and_a_stall() -> Result<()> {
    let (redis, stage) = (RedisServer::start()?, Stage::new()?);
    let url = redis.url();
    let start = || stage.start(LEADER, &[&url]);
    let mut fleet = vec![start()?, start()?, start()?, start()?];

    let crashed = next_leader(&stage, 0).await?;
    take(&mut fleet, crashed.pid)?.kill()?;

    let stopped = next_leader(&stage, crashed.fence).await?;
    // By its TTL alone, the record would stay for six seconds.
    let leads = || -> Result<bool> {
        let record = redis.cli(&["GET", "syncguard:leader:reports"])?;
        Ok(record.contains(&format!("{:015}", stopped.fence)))
    };
    ensure!(leads()?, "the record is elsewhere");
    take(&mut fleet, stopped.pid)?.stop(Signal::TERM)?;
    ensure!(!leads()?, "it did not give the lead back");

    let stalled = next_leader(&stage, stopped.fence).await?;
    let mut sleeper = take(&mut fleet, stalled.pid)?;
    sleeper.pause()?;
    next_leader(&stage, stalled.fence).await?;
    sleeper.resume()?;
    stage.said(&sleeper, "leads no more").await?;

    // The leader and the candidates all stop on request.
    fleet.push(sleeper);
    let pids: Vec<u32> = fleet.iter().map(ServerProcess::pid).collect();
    for process in fleet {
        process.stop(Signal::TERM)?;
    }
    for pid in pids {
        ensure!(stage.lines()?.contains(&format!("{pid} is done")), "{pid} did not end well");
    }
    check(&stage.lines()?)
}

#[derive(Clone, Copy, PartialEq)]
struct Term {
    pid: u32,
    fence: u64,
}

/// Waits for a leader with a higher fence to be at work.
async fn next_leader(stage: &Stage, after: u64) -> Result<Term> {
    let find = |lines: &[String]| {
        lines
            .iter()
            .filter_map(|line| parse(line, " works under fence "))
            .find(|it| it.fence > after)
    };
    stage.until("the next leader", find).await
}

fn parse(line: &str, verb: &str) -> Option<Term> {
    let (pid, fence) = line.split_once(verb)?;
    Some(Term { pid: pid.parse().ok()?, fence: fence.parse().ok()? })
}

/// One leader at a time, under growing fences.
fn check(lines: &[String]) -> Result<()> {
    let (mut current, mut terms, mut late) = (None::<Term>, 0, 0);
    for line in lines {
        if let Some(term) = parse(line, " leads under fence ") {
            let before = current.map_or(0, |term| term.fence);
            ensure!(term.fence > before, "fence {} after {before}", term.fence);
            (current, terms) = (Some(term), terms + 1);
        }
        if let Some(work) = parse(line, " works under fence ") {
            let current = current.context("work before anybody led")?;
            late += u32::from(work != current);
        }
    }
    ensure!(terms >= 4, "{terms} terms");
    // The stopped process may have been between its check and its line; no lock can prevent that.
    ensure!(late <= 1, "{late} times, somebody worked while another led:\n{}", lines.join("\n"));
    Ok(())
}
