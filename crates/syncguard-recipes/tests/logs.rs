//! The log of elections and ticks.

use std::sync::Arc;
use std::time::SystemTime;

use crate::common::{Connection, ms};
use syncguard_conformance::LogLines;
use syncguard_core::authoring::hash_key;
use syncguard_core::contract::{AcquireRequest, AcquireResult, Holder, ReleaseRequest};
use syncguard_core::diagnostics::get_by_key;
use syncguard_core::{
    CancellationToken, ErrorCode, Fence, IntoKey as _, LockBackend, LockConfig, LockError,
    ReleaseResult, forward,
};
use syncguard_memory::MemoryBackend;
use syncguard_recipes::{Election, Schedule, Ticks};
use tokio::time::{Instant, sleep};
use tracing::Level;

const KEY: &str = "leader:of-mrs-smith";

/// The lines at `INFO` and above since the last call.
fn loud(log: &LogLines) -> Vec<String> {
    let lines = log.take().into_iter().filter(|line| line.level <= Level::INFO);
    lines.map(|line| format!("{} {}", line.level, line.text)).collect()
}

/// The begin and the end of each term, and nothing else while all is well. The key and the lock id are in no line.
#[tokio::test(start_paused = true)]
async fn the_begin_and_the_end_of_each_term_are_logged() {
    let (log, _subscriber) = LogLines::collect();
    let line = Connection::new();
    let shutdown = CancellationToken::new();
    let election = Election::new(line.clone(), LockConfig::new(KEY).with_ttl(ms(3_000)))
        .with_shutdown(shutdown.clone());
    let handle = election.handle();
    let run = tokio::spawn(election.run(async |term| {
        term.lost().await;
    }));
    let hash = hash_key(KEY);
    let label = line.client_state().holder().label().to_owned();
    assert_eq!(label, Holder::this_process().label());
    let begin = |fence: u64| {
        format!("INFO message=leads key_hash={hash} fence={fence:015} holder=\"{label}\"")
    };
    let end = |fence: u64, end: &str| {
        format!("INFO message=leads no more key_hash={hash} fence={fence:015} end=\"{end}\"")
    };

    sleep(ms(100)).await;
    assert_eq!(loud(&log), [begin(1)]);
    let lock_id = get_by_key(&line.store, KEY).await.unwrap().unwrap().lock_id;
    handle.resign();
    sleep(ms(5_000)).await;
    assert_eq!(loud(&log), [end(1, "resigned"), begin(2)]);

    line.cut(true);
    sleep(ms(2_900)).await;
    let lines = loud(&log);
    assert!(lines.contains(&end(2, "lost")), "{lines:?}");
    for line in &lines {
        assert!(!line.contains(KEY) && !line.contains(lock_id.expose()), "{line}");
    }
    line.cut(false);
    sleep(ms(10_000)).await;
    assert!(loud(&log).ends_with(&[begin(3)]));

    shutdown.cancel();
    run.await.unwrap().unwrap();
    assert_eq!(loud(&log), [end(3, "shutdown")]);

    // A run that is dropped ends its term, too.
    let election = Election::new(line.clone(), LockConfig::new(KEY).with_holder("web-7f9c"));
    let run = tokio::spawn(election.run(async |_| std::future::pending().await));
    // Its process had the key for long, and leaves it free for a moment.
    sleep(ms(200)).await;
    run.abort();
    assert!(run.await.unwrap_err().is_cancelled());
    let begin = begin(4).replace(&label, "web-7f9c");
    assert_eq!(loud(&log), [begin, end(4, "resigned")]);
}

/// A store whose answers to grants are lost. The lock is given back in the background, as by every backend.
#[derive(Clone)]
struct LosesGrants(MemoryBackend);

impl LockBackend for LosesGrants {
    type Fence = Fence;

    async fn acquire(&self, request: AcquireRequest) -> Result<AcquireResult, LockError> {
        match self.0.acquire(request).await? {
            AcquireResult::Acquired(acquired) => {
                let given_back = self.0.release(ReleaseRequest::new(acquired.lock_id)).await?;
                assert_eq!(given_back, ReleaseResult::Released);
                let lost = LockError::new(ErrorCode::NetworkTimeout, "the answer was lost");
                Err(lost.with_unknown_outcome())
            }
            answer => Ok(answer),
        }
    }

    forward!(0: release, extend, is_locked, lookup, watch, health, inventory, capabilities, client_state);
}

/// A counter that no tick of this schedule has left is logged once, and so is a clock that stays ahead.
#[tokio::test(start_paused = true)]
async fn odd_counters_and_a_clock_that_is_ahead_are_logged_once() {
    let (log, _subscriber) = LogLines::collect();
    for (counter, ahead, expected) in [
        (0, 0, None),
        (200_000, 0, Some("the key was used for plain locks")),
        (4_000_000_000_000, 0, Some("the key's last tick is ahead of the store's time")),
        (0, 3_600, Some("this machine's clock is ahead of the store's")),
    ] {
        let (store, shutdown) = (MemoryBackend::new(), CancellationToken::new());
        let (began, at) = (SystemTime::now(), Instant::now());
        if counter > 0 {
            let key = "nightly".into_key().unwrap();
            store.set_fence_counter(&key, Fence::new(counter).unwrap());
        }
        let minutes = Schedule::every(ms(60_000)).unwrap();
        let clock = move || began + at.elapsed() + ms(ahead * 1000);
        let ticks = Ticks::new(store, "nightly", minutes).with_clock(Arc::new(clock));
        let run = tokio::spawn(ticks.with_shutdown(shutdown.clone()).run(async |_| ()));
        sleep(ms(200_000)).await;
        shutdown.cancel();
        run.await.unwrap().unwrap();
        let lines = loud(&log);
        assert_eq!(lines.len(), usize::from(expected.is_some()), "{lines:?}");
        assert!(lines.iter().all(|line| line.contains(expected.unwrap_or_default())), "{lines:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_tick_that_may_be_lost_is_logged() {
    let (log, _subscriber) = LogLines::collect();
    let shutdown = CancellationToken::new();
    let minutes = Schedule::every(ms(60_000)).unwrap();
    let (began, at) = (SystemTime::now(), Instant::now());
    let ticks = Ticks::new(LosesGrants(MemoryBackend::new()), "nightly", minutes)
        .with_clock(Arc::new(move || began + at.elapsed()));
    let run = tokio::spawn(ticks.with_shutdown(shutdown.clone()).run(async |_| ()));
    sleep(ms(65_000)).await;
    shutdown.cancel();
    run.await.unwrap().unwrap();
    let lines = loud(&log);
    let lost = lines.iter().filter(|line| line.contains("a tick may be lost")).count();
    assert!(
        lost > 0 && lines.len() == lost * 2,
        "a failure and a warning for each tick: {lines:?}"
    );
}
