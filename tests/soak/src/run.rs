//! A run on one store.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result, ensure};
use syncguard_history::{
    Checker, Counts, History, Limits, Random, Recorder, Violation, check, shrink,
};
use syncguard_test_services::redis::RedisServer;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use crate::connect::warm_up;
use crate::feed::{self, Feed};
use crate::fleet::{Fleet, Plan, RECIPES};
use crate::kind::Kind;
use crate::member::{Member, Role};
use crate::report::{Report, Versions};
use crate::settle::settle;
use crate::store::Store;
use crate::ways::Ways;
use crate::{Options, servers};

/// The number of keys that the processes share. It is larger than the number of locks at a time, so that killed and
/// stopped processes do not hold all keys.
const KEYS: u64 = 40;
const TTL: Duration = Duration::from_millis(300);
/// The number of violations that are reported in full.
const SHOWN: usize = 5;
/// A short run goes on until each fault has occurred. Its counts are judged as those of this time, and it ends after
/// four times this time at the latest.
const ONCE: Duration = Duration::from_secs(30);
const PROGRESS: Duration = Duration::from_secs(10);
/// The name of this process in the record.
const CONTROLLER: &str = "controller";

/// The ends of the parts of a run.
#[derive(Default)]
struct Flags {
    over: AtomicBool,
    nobody_works: AtomicBool,
    failed: AtomicBool,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let (seed, asked) = (options.seed(), end_when_asked()?);
    let mut is_clean = true;
    for kind in &options.stores {
        if asked.load(Ordering::SeqCst) {
            break;
        }
        is_clean &= run_on(*kind, seed, options, &asked)?;
    }
    Ok(if is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns true if the run found no violation.
fn run_on(kind: Kind, seed: u64, options: &Options, asked: &AtomicBool) -> Result<bool> {
    println!("{kind}, seed {seed}: starts");
    let folder = tempfile::Builder::new().prefix("soak-").tempdir()?;
    let result = soaked(kind, seed, options, (folder.path(), asked));
    if !matches!(&result, Ok(report) if report.violations.is_empty()) {
        println!("the newest part of the history is in {}", folder.keep().display());
    }
    let report = result.with_context(|| format!("{kind}, seed {seed}"))?;
    println!("{report}");
    for violation in &report.violations {
        println!("\n{violation}");
    }
    if let Some(folder) = &options.reports {
        report.write(&folder.join(format!("{kind}.json")))?;
    }
    if !report.is_clean() {
        let lasts = humantime::format_duration(options.lasts).to_string().replace(' ', "");
        println!(
            "\nagain, with the same plan of faults: cargo xtask soak --store {kind} --seed {seed} --for {lasts}"
        );
    }
    Ok(report.is_clean())
}

fn soaked(
    kind: Kind,
    seed: u64,
    options: &Options,
    (folder, asked): (&Path, &AtomicBool),
) -> Result<Report> {
    let mut random = Random::new(seed);
    let (store, registers) = (Store::start(kind)?, RedisServer::start()?);
    let versions = Versions::ask(&store)?;
    Builder::new_current_thread().enable_all().build()?.block_on(warm_up(&store.direct()))?;
    let feed = Feed::open(folder)?;
    let recorder = Recorder::to_file(CONTROLLER, feed.pipe())?;
    let places = options.processes + RECIPES;
    let ways =
        store.port().map(|port| Ways::start(places, port, &recorder, &mut random)).transpose()?;
    let locks = match &ways {
        Some(ways) => ways.ports().into_iter().map(|port| store.url_at(port)).collect(),
        None => vec![store.direct(); places],
    };
    let member = Member {
        name: String::new(),
        role: Role::Counts,
        locks: String::new(),
        registers: registers.url(),
        record: feed.pipe().to_owned(),
        seed: 0,
        keys: KEYS,
        ttl: u64::try_from(TTL.as_millis())?,
        tasks: options.tasks,
        skew: u64::try_from(kind.skew().as_millis())?,
    };
    let log = folder.join("members.log");
    let plan = Plan { member, locks, calm: kind.calm(), log: log.clone() };
    let fleet = Fleet::start(plan, recorder.clone(), Random::new(random.number()));

    let (began, started, flags) = (SystemTime::now(), Instant::now(), Flags::default());
    let mut watch = Watch { feed, checker: Checker::new(kind.limits()), told: started };
    let server_random = Random::new(random.number());
    let ran = thread::scope(|scope| -> Result<()> {
        let (flags, store, registers, recorder) = (&flags, &store, registers.url(), &recorder);
        let faults = scope.spawn(move || {
            let result = servers::break_until(store, recorder, server_random, &flags.over);
            flags.over.store(true, Ordering::SeqCst);
            result
        });
        let ways = ways.map(|it| scope.spawn(|| it.break_until(&flags.over)));
        let fleet = scope.spawn(|| {
            let result = fleet.live_until(&flags.nobody_works);
            flags.over.store(true, Ordering::SeqCst);
            result
        });
        // No process may block on the pipe, so this reads it until its end.
        let ending = scope.spawn(move || -> Result<()> {
            let faults = joined(faults);
            // The proxies live until all work has ended.
            let ways = ways.map(ScopedJoinHandle::join);
            flags.nobody_works.store(true, Ordering::SeqCst);
            let ended = joined(fleet).and(faults);
            drop(ways);
            let ended = ended.and_then(|()| {
                let runtime = Builder::new_current_thread().enable_all().build()?;
                runtime.block_on(settle(store, &registers, (KEYS, TTL), recorder))
            });
            flags.failed.store(ended.is_err(), Ordering::SeqCst);
            ended
        });
        let watched = loop {
            match watch.pump(started) {
                // A process that failed leaves no end in the record.
                Ok(false) if !flags.failed.load(Ordering::SeqCst) => {}
                Ok(_) => break Ok(()),
                Err(error) => break Err(error),
            }
            let is_enough = started.elapsed() > options.lasts && watch.is_enough(kind, started);
            let is_over = is_enough || asked.load(Ordering::SeqCst);
            if is_over || !watch.checker.violations().is_empty() {
                flags.over.store(true, Ordering::SeqCst);
            }
        };
        flags.over.store(true, Ordering::SeqCst);
        joined(ending).and(watched)
    });
    watch.feed.write(folder)?;
    ran?;
    let unaccounted = watch.feed.unaccounted();
    ensure!(unaccounted.is_empty(), "{unaccounted:?} ended without a word, see {}", log.display());
    ensure!(watch.checker.refused() == 0, "{} answers without a call", watch.checker.refused());
    let lasted = started.elapsed();
    let verdict = watch.checker.finish();
    let mut violations = Vec::new();
    for violation in verdict.violations.iter().take(SHOWN) {
        violations.push(smallest(&watch.feed.history()?, violation, &kind.limits()));
    }
    violations.extend(watch.feed.outcomes().violations(kind.limits().clocks));
    let judged = lasted.min(options.lasts.max(ONCE));
    Ok(Report {
        store: kind.to_string(),
        seed,
        began: humantime::format_rfc3339_seconds(began).to_string(),
        seconds: lasted.as_secs(),
        longest_outage_ms: verdict.longest_outage_ms,
        violations,
        missing: missing(kind, judged, &verdict.counts, &watch.feed),
        counts: verdict.counts,
        versions,
    })
}

fn joined<T>(thread: ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    thread.join().ok().context("a thread that panicked")?
}

/// The record while it is written.
struct Watch {
    feed: Feed,
    checker: Checker,
    told: Instant,
}

impl Watch {
    /// Returns true if each fault has occurred, or does not occur any more.
    fn is_enough(&self, kind: Kind, started: Instant) -> bool {
        let ran = started.elapsed();
        let counts = self.checker.counts();
        ran > 4 * ONCE || missing(kind, ran.min(ONCE), counts, &self.feed).is_empty()
    }

    /// Reads the new lines; returns true at the end.
    fn pump(&mut self, started: Instant) -> Result<bool> {
        let is_over = self.feed.pump(CONTROLLER, &mut self.checker)?;
        if self.told.elapsed() >= PROGRESS {
            self.told = Instant::now();
            let counts = self.checker.counts();
            let seconds = started.elapsed().as_secs();
            let operations = counts.answered + counts.unknown;
            println!(
                "{seconds:6} s: {operations} operations checked ({}/s), {} granted, {} faults, {} violations",
                operations / seconds.saturating_sub(feed::BEHIND.as_secs()).max(1),
                counts.granted,
                counts.all_faults(),
                self.checker.violations().len(),
            );
        }
        Ok(is_over)
    }
}

/// The events of which a run of this length has too few to prove anything.
fn missing(kind: Kind, ran: Duration, counts: &Counts, feed: &Feed) -> Vec<String> {
    let mut missing = kind.missing(ran, counts);
    missing.extend(feed.outcomes().missing(ran.as_secs() / 60));
    missing
}

/// A violation as text, with the few operations that show it.
fn smallest(history: &History, violation: &Violation, limits: &Limits) -> String {
    let shrunk = shrink(history, violation, limits);
    let shown = check(&shrunk, limits).into_iter().find(|it| it.invariant == violation.invariant);
    let fewest = shown.map(|it| format!("\n  the fewest operations that show it:\n{it}"));
    format!("{violation}{}", fewest.unwrap_or_default())
}

/// Set by Ctrl-C and SIGTERM.
fn end_when_asked() -> Result<Arc<AtomicBool>> {
    let asked = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&asked);
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let signals = runtime.block_on(async {
        anyhow::Ok((signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?))
    });
    let (mut interrupt, mut terminate) = signals?;
    thread::spawn(move || {
        runtime.block_on(async {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                flag.store(true, Ordering::SeqCst);
            }
        });
    });
    Ok(asked)
}
