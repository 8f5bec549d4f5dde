//! Three processes with an election: leaders are killed, stopped, cut off and asked to resign.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use syncguard::contract::TIME_TOLERANCE;
use syncguard_history::{Answer, Call, Entry, Fault, History};
use syncguard_test_services::proxy::FaultProxy;

use crate::fleet::recipes::{BUSY, Granted, Stage, Worker, granted, on_each_store};
use syncguard_tests::fleet::stores::Store;

const TTL: Duration = Duration::from_millis(1_500);
const KEY: &str = "leader";
/// How often the lead has to pass on after a resignation, and the most resignations until then: on a busy machine the
/// others may be too slow.
const CHANGES: usize = 3;
const ROUNDS: usize = 12;
/// A process that has resigned waits for a second, less the inexactness of a timer.
const LETS_OTHERS_GO_FIRST: Duration = Duration::from_millis(990);
/// So many terms that follow each other without this pause are a flaw. A single one may follow a lock that was lost,
/// because the machine was busy.
const AT_ONCE: usize = 3;

#[test]
fn never_two_lead_and_a_new_one_does_soon() {
    on_each_store(run);
}

/// A candidate behind a proxy of its own.
struct Candidate {
    worker: Worker,
    way: FaultProxy,
}

struct Candidates<'a> {
    store: &'a Store,
    stage: Stage<'a>,
    all: Vec<Candidate>,
}

fn run(store: &Store, folder: &Path) -> Result<String> {
    let mut it = Candidates { store, stage: Stage::new(folder)?, all: Vec::new() };
    for _ in 0..3 {
        it.start()?;
    }
    let first = it.next(0)?;
    // The longest time without a leader after a crash of the leader.
    let gone = TTL + TIME_TOLERANCE + Duration::from_secs(1);

    let dead = it.take(&first)?;
    let at = Instant::now();
    it.stage.kill(dead.worker)?;
    let second = it.next(first.fence)?;
    let killed = at.elapsed();
    ensure!(killed < gone + BUSY, "{killed:?} after a kill");
    it.start()?;

    let mut sleeper = it.take(&second)?;
    sleeper.worker.process.pause()?;
    it.stage.recorder.note(Entry::Fault(Fault::Stopped));
    let third = it.next(second.fence)?;
    sleeper.worker.process.resume()?;
    it.all.push(sleeper);

    let lonely = it.take(&third)?;
    let at = Instant::now();
    lonely.way.freeze(true);
    it.stage.recorder.note(Entry::Fault(Fault::Frozen));
    let fourth = it.next(third.fence)?;
    let cut = at.elapsed();
    ensure!(cut < gone + BUSY, "{cut:?} after a cut");
    lonely.way.freeze(false);
    lonely.way.sever();
    it.all.push(lonely);

    // The two candidates race for the signal.
    let (mut before, mut longest) = (fourth, Duration::ZERO);
    let (mut changes, mut at_once) = (0, 0);
    for _ in 0..ROUNDS {
        if changes == CHANGES {
            break;
        }
        // A process that resigned before is a candidate again by then, and watches the key.
        std::thread::sleep(Duration::from_millis(1_300));
        let at = Instant::now();
        let leader = it.find(&before)?;
        let pid =
            Pid::from_raw(it.all[leader].worker.process.pid().cast_signed()).context("a pid")?;
        kill_process(pid, Signal::USR1)?;
        let next = it.next(before.fence)?;
        longest = longest.max(at.elapsed());
        if next.process != before.process {
            changes += 1;
        } else if it.pause_between(&before, &next)? < LETS_OTHERS_GO_FIRST {
            at_once += 1;
        }
        before = next;
    }
    ensure!(at_once < AT_ONCE, "{at_once} times a process took the lead again at once");
    ensure!(changes == CHANGES, "only {changes} of {ROUNDS} resignations let others lead");
    ensure!(longest < BUSY, "{longest:?} after a resignation");

    let Candidates { stage, all, .. } = it;
    let (workers, ways): (Vec<_>, Vec<_>) = all.into_iter().map(|it| (it.worker, it.way)).unzip();
    stage.stop(workers)?;
    drop(ways);
    stage.check()?;
    let history = stage.history()?;
    let fences: Vec<_> = granted(&history).iter().map(|it| it.fence).collect();
    ensure!(fences.is_sorted_by(|one, other| one < other), "{fences:?}");
    let handed = handed_over(&history);
    let told = history.notes.iter().filter(|(_, it)| matches!(it, Entry::Told { .. })).count();
    ensure!(told >= 4, "only {told} were told to stop");
    let (live, _) = runtime()?.block_on(store.leftovers())?;
    ensure!(live == 0, "the lock was not given back");
    Ok(format!(
        "a new leader {killed:.1?} after a kill, {cut:.1?} after a cut, {longest:.1?} after a resignation \
         (from release to grant {handed:?} ms); {} terms",
        fences.len()
    ))
}

/// From each answered release to the next grant, in milliseconds.
fn handed_over(history: &History) -> Vec<u64> {
    let grants = granted(history);
    let releases = history.operations.iter().filter(|operation| {
        matches!(operation.call, Call::Release { .. })
            && matches!(operation.answer(), Some(Answer::Released))
    });
    let next = |at| grants.iter().find(|grant| grant.at.steady > at);
    releases
        .filter_map(|it| Some((next(it.called.steady)?.at.steady - it.called.steady) / 1000))
        .collect()
}

impl Candidates<'_> {
    fn start(&mut self) -> Result<()> {
        let way = FaultProxy::start(self.store.port().context("a server")?)?;
        let rest = [KEY.to_owned(), TTL.as_millis().to_string()];
        let worker = self.stage.start("election", &self.store.url_at(Some(way.port())), &rest)?;
        self.all.push(Candidate { worker, way });
        Ok(())
    }

    /// The next leader, with a higher fence.
    fn next(&self, after: u64) -> Result<Granted> {
        self.stage.until("new leader", |history| {
            granted(history).into_iter().find(|it| it.key == KEY && it.fence > after)
        })
    }

    /// From the release after the first of two terms of one process to the grant of the second. Without a release, the
    /// lock was not resigned from: then from one grant to the other.
    fn pause_between(&self, first: &Granted, second: &Granted) -> Result<Duration> {
        let history = self.stage.history()?;
        let releases = history.operations.iter().filter(|operation| {
            operation.process == first.process
                && matches!(operation.call, Call::Release { .. })
                && (first.at..second.at).contains(&operation.called)
        });
        let from = releases.map(|it| it.called).max().unwrap_or(first.at);
        Ok(Duration::from_micros(second.at.steady - from.steady))
    }

    fn find(&self, leader: &Granted) -> Result<usize> {
        let position = self.all.iter().position(|it| it.worker.name == leader.process);
        position.context("a leader that is not there any more")
    }

    fn take(&mut self, leader: &Granted) -> Result<Candidate> {
        let index = self.find(leader)?;
        Ok(self.all.swap_remove(index))
    }
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}
