//! Work on a store, on the record, while its server is replaced.

#![allow(clippy::print_stdout, reason = "figures for a human eye")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use syncguard::inventory::ListRequest;
use syncguard::{
    AcquisitionOptions, CancellationToken, DynBackend, LockBackend as _, LockConfig, acquire,
    connect,
};
use syncguard_history::{
    Answer, Call, Clock, Entry, Limits, Random, Recorder, Recording, Violation, check,
};
use syncguard_tests::calls::until;
use tokio::task::JoinSet;

/// The longest life of a lock.
pub(super) const TTL: Duration = Duration::from_secs(2);

/// Few, so that tasks wait for each other.
const KEYS: u64 = 3;

/// Two backends with three tasks each.
pub(super) struct Load {
    recorder: Recorder,
    backends: Vec<DynBackend>,
    tasks: JoinSet<()>,
    grants: Arc<AtomicU64>,
    stop: CancellationToken,
    limits: Limits,
}

impl Load {
    pub(super) async fn start(url: &str) -> Result<Self> {
        let mut load = Self {
            recorder: Recorder::in_memory(Clock::Machine),
            backends: Vec::new(),
            tasks: JoinSet::new(),
            grants: Arc::default(),
            stop: CancellationToken::new(),
            limits: limits(url),
        };
        for process in 0..2 {
            let backend = connect(url).await?;
            for task in 0..3 {
                let recorder = load.recorder.named(&format!("{process}-{task}"));
                let recorded = Recording::new(backend.clone(), recorder);
                let random = Random::new(Random::seed() ^ (10 * process + task));
                let (grants, stop) = (Arc::clone(&load.grants), load.stop.clone());
                load.tasks.spawn(async move { work(&recorded, random, &grants, &stop).await });
            }
            load.backends.push(backend);
        }
        load.goes_on().await;
        Ok(load)
    }

    /// Waits until some more locks were granted.
    pub(super) async fn goes_on(&self) {
        let before = self.grants.load(Ordering::Relaxed);
        until("locks", async || self.grants.load(Ordering::Relaxed) >= before + 50).await;
    }

    /// Ends the work, and looks for what must not be. Between two grants of a key there is no longer time than
    /// this.
    pub(super) async fn end(self, longest: Duration) -> Result<()> {
        let (violations, away) = self.judged().await?;
        ensure!(violations.is_empty(), "{}", texts(&violations).join("\n"));
        ensure!(away <= longest, "no grant for {away:?}");
        Ok(())
    }

    /// What must not be, and the longest time between two grants of a key.
    pub(super) async fn judged(mut self) -> Result<(Vec<Violation>, Duration)> {
        self.goes_on().await;
        self.stop.cancel();
        let stopped = self.recorder.now().steady;
        while let Some(ended) = self.tasks.join_next().await {
            ended?;
        }
        // Locks of calls that were cut off end by themselves.
        let ended = Instant::now();
        let (mut live, mut waiting) = (1, 1);
        while (live, waiting) != (0, 0) && ended.elapsed() < Duration::from_secs(60) {
            tokio::time::sleep(Duration::from_millis(50)).await;
            live = locks(&self.backends[0]).await?;
            let undone = self.backends.iter().map(|it| it.client_state().pending_releases());
            waiting = undone.sum::<usize>() as u64;
        }
        self.recorder.note(Entry::Quiet { live, tasks: waiting, borrowed: 0 });

        let history = self.recorder.history();
        let mut grants: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for operation in &history.operations {
            if let (Call::Acquire { key, .. }, Some((at, Answer::Acquired { .. }))) =
                (&operation.call, &operation.answered)
            {
                grants.entry(key).or_default().push(at.steady);
            }
        }
        let mut pauses = Vec::new();
        for grants in grants.values_mut() {
            // A key without a grant since then counts as well.
            grants.push(stopped);
            grants.sort_unstable();
            pauses.extend(grants.windows(2).map(|pair| pair[1] - pair[0]));
        }
        let away = Duration::from_micros(pauses.iter().max().copied().context("grants")?);
        println!("{} grants, no longer than {away:?} between two of a key", pauses.len());
        Ok((check(&history, &self.limits), away))
    }
}

/// Takes locks until it is told to stop. What fails is on the record.
async fn work(
    backend: &Recording<DynBackend>,
    mut random: Random,
    grants: &AtomicU64,
    stop: &CancellationToken,
) {
    let patience = AcquisitionOptions::new().with_timeout(Duration::from_secs(1));
    while !stop.is_cancelled() {
        let key = format!("counter-{}", random.below(KEYS));
        let config = LockConfig::new(key).with_ttl(TTL).with_acquisition(patience);
        if let Ok(mut guard) = acquire(backend, config).await {
            grants.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(random.millis(1, 10)).await;
            if random.percent(30) {
                let _ = guard.extend(TTL).await;
            }
            let _ = guard.release().await;
        }
        tokio::time::sleep(random.millis(1, 10)).await;
    }
}

/// The locks that the store lists.
async fn locks(backend: &DynBackend) -> Result<u64> {
    let inventory = backend.inventory().context("an inventory")?;
    let page = inventory.list_locks(ListRequest::new()).await?;
    Ok((page.entries.len() + page.corrupt.len()) as u64)
}

/// For a busy machine, and for the bounds in which a client knows etcd's time.
fn limits(url: &str) -> Limits {
    let width = Duration::from_secs(if url.starts_with("etcd") { 2 } else { 0 });
    Limits {
        clocks: Limits::new().clocks + width,
        drift: width,
        in_flight: Duration::from_secs(20),
        orphan: Duration::from_secs(20),
        resent: Duration::from_secs(20),
        retried_extends: true,
        ..Limits::new()
    }
}

fn texts(violations: &[Violation]) -> Vec<String> {
    violations.iter().map(ToString::to_string).collect()
}
