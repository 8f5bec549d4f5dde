//! Signals of releases. These cases do not apply to a backend without signals.

use std::future::Future;
use std::time::Duration;

use syncguard_core::contract::{KeyWatch, WatchRequest};
use syncguard_core::{AcquisitionOptions, Jitter, Key, LockBackend, LockConfig, acquire};

use crate::client::Client;
use crate::context::{Context, LONG, SHORT, fresh_key};
use crate::in_window::{InWindow, nth};
use crate::other_process::OtherProcess;
use crate::outcome::{Checked, Outcome, Stop, Unexpected, ensure};
use crate::tasks::pause;

/// The limit for a signal: longer than it takes to notice that a signal connection is broken and to make a new one,
/// and far shorter than the polls and locks in these cases.
const HEARD: Duration = Duration::from_secs(30);

/// Watches a key. The case does not apply if the backend has no signals. A backend whose connection for signals has just
/// broken has none for a moment.
async fn watch(client: &Client, key: &Key) -> Result<KeyWatch, Stop> {
    for _ in 0..20 {
        if let Some(watch) = client.backend().watch(WatchRequest::new(key.clone())).await {
            return Ok(watch);
        }
        pause(50).await;
    }
    Err(Stop::NotApplicable("the backend cannot tell when a lock is released"))
}

async fn heard(what: &str, signal: impl Future<Output = ()>) -> Checked<()> {
    let in_time = tokio::time::timeout(HEARD, signal).await;
    in_time.map_err(|_| Unexpected::new(format!("{what} was not heard within {HEARD:?}")))
}

pub(crate) async fn a_release_is_heard(context: &Context<'_>) -> Outcome {
    let (client, other) = context.pair().await;
    let key = fresh_key()?;
    for releaser in [&other, &other, &client, &other] {
        let lock = releaser.take(&key, LONG).await?;
        let mut signal = watch(&client, &key).await?;
        releaser.released(lock.lock_id).await?;
        heard("a release", signal.changed()).await?;
    }
    if let Ok(windows) = InWindow::of(other) {
        let lock = windows.0.take(&key, LONG).await?;
        let mut signal = watch(&client, &key).await?;
        windows.counted(&key, lock.lock_id, nth(1)?).await?;
        heard("a release that raises the counter", signal.changed()).await?;
    }
    Ok(())
}

pub(crate) async fn a_watch_does_not_take_a_free_key_for_locked(context: &Context<'_>) -> Outcome {
    let (client, other) = context.pair().await;
    let key = fresh_key()?;
    let never = watch(&client, &key).await?;
    ensure!(!never.is_locked, "a key that was never locked is said to be locked");
    // The lock is released after the refusal and before the watch, so only a look can tell.
    let lock = other.take(&key, LONG).await?;
    client.refused(&key, LONG).await?;
    other.released(lock.lock_id).await?;
    let late = watch(&client, &key).await?;
    ensure!(!late.is_locked, "a lock that was released before is said to be live");
    // The lock has expired, although its record may still exist.
    other.take(&key, SHORT).await?;
    context.outlive(SHORT).await;
    let expired = watch(&client, &key).await?;
    ensure!(!expired.is_locked, "a lock that has expired is said to be live");
    Ok(())
}

pub(crate) async fn a_release_of_another_key_says_nothing_of_this_one(
    context: &Context<'_>,
) -> Outcome {
    let (client, other) = context.pair().await;
    let (key, neighbour) = (fresh_key()?, fresh_key()?);
    let lock = other.take(&key, LONG).await?;
    let mut signal = watch(&client, &key).await?;
    let mut neighbours = watch(&client, &neighbour).await?;
    for _ in 0..3 {
        let lock = other.take(&neighbour, LONG).await?;
        other.released(lock.lock_id).await?;
    }
    // An additional signal does no harm. This checks that the watch still gets its own signal.
    drop(neighbours.changed());
    other.released(lock.lock_id).await?;
    heard("a release among others", signal.changed()).await?;
    Ok(())
}

pub(crate) async fn no_release_is_lost_between_a_refusal_and_the_wait(
    context: &Context<'_>,
) -> Outcome {
    const ROUNDS: usize = 40;
    let (client, other) = context.pair().await;
    let key = fresh_key()?;
    drop(watch(&client, &key).await?);
    // Polls would come too late to explain the result.
    let options = AcquisitionOptions::new()
        .with_timeout(LONG)
        .with_retry_delay(LONG)
        .with_jitter(Jitter::None);
    let config = LockConfig::new(&key).with_ttl(LONG).with_acquisition(options);
    let process = OtherProcess::new(client.backend().clone());
    let mut lost = 0;
    for round in 0..ROUNDS {
        let lock = other.take(&key, LONG).await?;
        let waiting = acquire(&process, config.clone());
        let releasing = async {
            // Each round releases at another moment of the refusal, the watch and the wait.
            for _ in 0..round {
                tokio::task::yield_now().await;
            }
            other.released(lock.lock_id).await
        };
        let both = async { tokio::join!(waiting, releasing) };
        let Ok((guard, released)) = tokio::time::timeout(HEARD, both).await else {
            // A signal is a hint. Firestore's emulator loses one in some thousand; a backend that watches too late
            // loses every signal that comes at that moment.
            lost += 1;
            ensure!(lost < 2, "a waiter did not hear of a release, twice in {ROUNDS}");
            continue;
        };
        released?;
        guard?.release().await?;
    }
    Ok(())
}
