//! A client with transactions, like the TypeScript library, beside ours.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use syncguard_firestore::contract::{AcquireResult, ReleaseRequest};
use syncguard_firestore::gcloud_sdk::tonic::Code;
use syncguard_firestore::{FirestoreOptions, LockBackend as _, LockId};
use tokio::task::JoinSet;

use crate::firestore::support::{Raw, backend_with, fresh, options, request};
use crate::firestore::transactional::Transactional;

/// The current holder and all granted fences of each key.
#[derive(Default)]
struct Referee {
    inside: HashMap<String, &'static str>,
    fences: HashMap<String, Vec<u64>>,
    turns: HashMap<&'static str, u32>,
}

impl Referee {
    fn enter(&mut self, key: &str, who: &'static str, fence: u64) {
        let other = self.inside.insert(key.to_owned(), who);
        assert_eq!(other, None, "{who} gets in although somebody holds {key}");
        let fences = self.fences.entry(key.to_owned()).or_default();
        assert!(fences.last().is_none_or(|last| *last < fence), "{fence} after {fences:?}");
        fences.push(fence);
        *self.turns.entry(who).or_default() += 1;
    }

    fn leave(&mut self, key: &str) {
        self.inside.remove(key);
    }

    fn is_over(&self, started: Instant) -> bool {
        let turns = |who| self.turns.get(who).is_some_and(|turns| *turns >= TURNS);
        let raced = started.elapsed();
        raced > LIMIT || (raced > TIME && turns(OURS) && turns(THEIRS))
    }
}

const OURS: &str = "ours";
const THEIRS: &str = "theirs";

/// The shortest and the longest time of the race.
const TIME: Duration = Duration::from_secs(4);
const LIMIT: Duration = Duration::from_secs(60);

/// The least number of turns of each client.
const TURNS: u32 = 6;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn never_two_holders_never_a_repeated_fence() -> Result<()> {
    let url = fresh();
    let options: FirestoreOptions = options().with_request_timeout(Duration::from_secs(5));
    let referee = Arc::new(Mutex::new(Referee::default()));
    let started = Instant::now();
    let mut tasks: JoinSet<Result<u32>> = JoinSet::new();
    for worker in 0..3 {
        let key = ["x", "y", "x"][worker];
        let (ours, referee) = (backend_with(&url, options.clone()).await, Arc::clone(&referee));
        tasks.spawn(async move {
            let mut failed = 0;
            while !referee.lock().unwrap().is_over(started) {
                match ours.acquire(request(key, 60_000)).await.map(AcquireResult::acquired) {
                    Ok(Some(held)) => {
                        referee.lock().unwrap().enter(key, OURS, held.fence.get());
                        tokio::time::sleep(Duration::from_millis(2)).await;
                        referee.lock().unwrap().leave(key);
                        let mut released = ours.release(ReleaseRequest::new(held.lock_id)).await;
                        while released.is_err() && failed < 50 {
                            failed += 1;
                            released = ours.release(ReleaseRequest::new(held.lock_id)).await;
                        }
                    }
                    Ok(None) => {}
                    Err(error) => {
                        assert!(error.is_retryable(), "{error:?}");
                        failed += 1;
                    }
                }
                tokio::time::sleep(Duration::from_millis(15)).await;
            }
            Ok(failed)
        });
    }
    for key in ["x", "y"] {
        let (theirs, referee) = (Transactional(Raw::new(&url)), Arc::clone(&referee));
        let runtime = tokio::runtime::Handle::current();
        // On a thread, because the future is not known to be `Send`.
        tasks.spawn_blocking(move || {
            runtime.block_on(async move {
                let mut failed = 0;
                while !referee.lock().unwrap().is_over(started) {
                    let id = LockId::generate()?;
                    match theirs.acquire(key, id, 60_000).await {
                        Ok(Some(fence)) => {
                            referee.lock().unwrap().enter(key, THEIRS, fence);
                            tokio::time::sleep(Duration::from_millis(2)).await;
                            referee.lock().unwrap().leave(key);
                            while theirs.release(id).await.is_err() && failed < 50 {
                                failed += 1;
                            }
                        }
                        Ok(None) => {}
                        Err(status) if status.code() == Code::Aborted => failed += 1,
                        Err(status) => return Err(status).context("their acquire"),
                    }
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                Ok(failed)
            })
        });
    }
    let mut failed = Vec::new();
    while let Some(result) = tasks.join_next().await {
        failed.push(result??);
    }
    let referee = referee.lock().unwrap();
    println!("turns {:?}, failed {failed:?}", referee.turns);
    for who in [OURS, THEIRS] {
        assert!(referee.turns.get(who).is_some_and(|turns| *turns >= TURNS), "{:?}", referee.turns);
    }
    Ok(())
}
