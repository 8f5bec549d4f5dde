//! Callers that leave.

use std::time::Duration;

use anyhow::{Result, ensure};
use syncguard_postgres::LockBackend as _;
use syncguard_postgres::contract::{ExtendRequest, IsLockedRequest, LookupRequest, ReleaseRequest};
use syncguard_tests::polling::{poll_times, poll_times_and_linger};

use crate::postgres::support::{MINUTE, is_quiet, request, settles, stage, take};

/// Futures are dropped after each possible number of polls, at once and when the answer may be on the network, over a
/// pool of one connection: the next user of that connection finds it clean.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_future_leaves_a_clean_connection() -> Result<()> {
    const OPERATIONS: usize = 5;
    let (tables, backend, admin) = stage(1).await;
    for linger in [Duration::ZERO, Duration::from_millis(1)] {
        for polls in 0.. {
            ensure!(polls < 100, "they never end");
            let mut all_ended = true;
            for operation in 0..OPERATIONS {
                let id = take(&backend, "held").await.lock_id;
                let (key, release) = (IsLockedRequest::new("held")?, ReleaseRequest::new(id));
                let extend = ExtendRequest::new(id, MINUTE)?;
                let ended = match operation {
                    0 => is_done(backend.acquire(request("key", MINUTE)), polls, linger).await,
                    1 => is_done(backend.release(release), polls, linger).await,
                    2 => is_done(backend.extend(extend), polls, linger).await,
                    3 => is_done(backend.is_locked(key), polls, linger).await,
                    _ => {
                        let lookup = backend.lookup(LookupRequest::by_lock_id(id));
                        is_done(lookup, polls, linger).await
                    }
                };
                ensure!(polls > 0 || !ended);
                all_ended &= ended;
                // The next statement on the connection, from outside of the library.
                let client = backend.pool().get().await?;
                let sql = "SELECT pg_current_xact_id_if_assigned()::text,
                    now() < statement_timestamp() - interval '1 s'";
                let row = client.query_one(sql, &[]).await?;
                let clean = row.get::<_, Option<&str>>(0).is_none() && !row.get::<_, bool>(1);
                ensure!(clean, "{operation} after {polls} polls: in a transaction");
                drop(client);
                let _ = backend.release(ReleaseRequest::new(id)).await?;
                if ended && operation == 0 {
                    admin.batch_execute(&format!("DELETE FROM {}", tables.locks)).await?;
                }
                settles(&admin, &tables).await?;
            }
            if all_ended {
                break;
            }
        }
    }
    is_quiet(&admin, &tables).await?;
    ensure!(backend.pool().status().size == 1);
    Ok(())
}

async fn is_done(future: impl Future, polls: usize, linger: Duration) -> bool {
    poll_times_and_linger(future, polls, linger).await.is_some()
}

/// An acquire that is given up while it waits for a connection is never sent.
#[tokio::test]
async fn what_was_not_sent_when_it_was_dropped_is_never_sent() -> Result<()> {
    let (tables, backend, admin) = stage(1).await;
    let busy = backend.pool().get().await?;
    ensure!(poll_times(backend.acquire(request("key", MINUTE)), 1).await.is_none());
    drop(busy);
    // A statement that was sent is carried out before the connection is free again.
    let free = tokio::time::timeout(MINUTE, backend.pool().get()).await??;
    drop(free);
    ensure!(tables.counter(&admin, "key").await == 0, "it was sent");
    ensure!(backend.pool().status().available == 1);
    Ok(())
}
