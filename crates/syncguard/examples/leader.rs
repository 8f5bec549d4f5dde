//! A leader loop: of many processes one leads at a time, and when it stops or dies another takes
//! over.
//!
//! ```console
//! $ docker run --rm -d -p 6379:6379 redis
//! $ cargo run -p syncguard --features redis --example leader -- redis://127.0.0.1
//! ```
//!
//! Run the second line in several terminals. After Ctrl-C (or SIGTERM) on the leader, another one
//! leads within a second; after `kill -9`, when the TTL and a second of tolerance have passed. The
//! store is the first argument, or `SYNCGUARD_URL`, or this process's own memory.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;
use std::{env, io, process};

use syncguard::{
    AcquisitionOptions, AutoExtend, Backoff, CancellationToken, DynBackend, ErrorCode, Fence,
    LockConfig, LockError, LockGuard, acquire,
};
use tokio::signal::ctrl_c;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{interval, sleep};

/// How long nobody leads after a crash. The lock is renewed three times as often.
const TTL: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = env::args().nth(1).or_else(|| env::var("SYNCGUARD_URL").ok());
    let backend = syncguard::connect(url.as_deref().unwrap_or("memory:")).await?;
    let shutdown = shutdown()?;
    let me = process::id();

    while let Some(term) = campaign(&backend, &shutdown).await? {
        println!("{me} leads under fence {}", term.fence());
        tokio::select! {
            // The loss first: after a stall, both may be ready.
            biased;
            // What `lead` was doing is dropped where it waits. Work that blocks a thread, or that was
            // spawned, has to watch `held().is_lost()` or `lost_token()` itself.
            reason = term.lost() => println!("{me} leads no more: {reason:?}"),
            () = shutdown.cancelled() => println!("{me} stops"),
            () = lead(me, term.fence()) => {}
        }
        // Without this, the next leader would have to wait for the TTL. It says whether the lock was
        // still ours; if the store cannot be reached, the TTL ends it.
        match term.release().await {
            Ok(released) => println!("{me} released: {}", released.is_released()),
            Err(error) => println!("{me} could not release: {error}"),
        }
    }
    println!("{me} is done");
    Ok(())
}

/// Waits for the lead, for as long as it takes; `None` at shutdown.
async fn campaign(
    backend: &DynBackend,
    shutdown: &CancellationToken,
) -> Result<Option<LockGuard<DynBackend>>, LockError> {
    let patience = AcquisitionOptions::new()
        .with_backoff(Backoff::Fixed)
        .with_retry_delay(Duration::from_secs(1))
        .with_max_retries(u32::MAX)
        .with_timeout(Duration::from_secs(3600));
    let config = LockConfig::new("leader:reports")
        .with_ttl(TTL)
        .with_auto_extend(AutoExtend::new())
        .with_acquisition(patience)
        .with_cancellation(shutdown.clone());
    loop {
        match acquire(backend, config.clone()).await {
            Ok(term) => return Ok(Some(term)),
            Err(error) if error.code() == ErrorCode::Aborted => return Ok(None),
            // An hour has passed, or the store is away. It will be back; a wrong password will not.
            Err(error) if error.is_retryable() => println!("no leader yet: {error}"),
            Err(error) => return Err(error),
        }
        tokio::select! {
            () = shutdown.cancelled() => return Ok(None),
            () = sleep(Duration::from_secs(1)) => {}
        }
    }
}

/// What the leader does until it leads no more. The fence goes along with every write, so that data
/// which remembers the highest one rejects a leader that has not noticed yet.
async fn lead(me: u32, fence: Fence) {
    let mut turns = interval(Duration::from_millis(500));
    loop {
        turns.tick().await;
        println!("{me} works under fence {fence}");
    }
}

/// A token that fires on Ctrl-C, and on the SIGTERM of systemd and Kubernetes.
fn shutdown() -> io::Result<CancellationToken> {
    let (token, mut terminate) = (CancellationToken::new(), signal(SignalKind::terminate())?);
    let fired = token.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = ctrl_c() => {}
            _ = terminate.recv() => {}
        }
        fired.cancel();
    });
    Ok(token)
}
