//! Races.

use std::sync::Arc;
use std::time::Duration;

use syncguard_core::contract::{AcquireRequest, FenceToken};
use syncguard_core::{AcquisitionOptions, Backoff, Key, LockConfig, LockId, lock};
use tokio::sync::Barrier;

use crate::client::{Client, Granted};
use crate::context::{Context, LONG, SHORT, fresh_key};
use crate::other_process::OtherProcess;
use crate::outcome::{Outcome, Stop, Unexpected, ensure, ensure_eq};
use crate::tasks::{Register, all, pause};

pub(crate) async fn one_of_many_racers_wins<F: FenceToken>(context: &Context<'_, F>) -> Outcome {
    let clients = context.clients(4).await;
    for _ in 0..5 {
        let key = fresh_key()?;
        let winner = race(&clients, &key, 32).await?;
        clients[0].live(&key, winner.lock_id).await?;
    }
    Ok(())
}

pub(crate) async fn an_expired_lock_has_one_heir<F: FenceToken>(
    context: &Context<'_, F>,
) -> Outcome {
    let clients = context.clients(4).await;
    let mut expired = Vec::new();
    for _ in 0..5 {
        let key = fresh_key()?;
        expired.push((clients[0].take(&key, SHORT).await?, key));
    }
    context.outlive(SHORT).await;
    for (old, key) in expired {
        let heir = race(&clients, &key, 16).await?;
        clients[0].live(&key, heir.lock_id).await?;
        clients[0].powerless(old.lock_id).await?;
    }
    Ok(())
}

pub(crate) async fn locks_of_one_key_never_overlap<F: FenceToken>(
    context: &Context<'_, F>,
) -> Outcome {
    const TASKS: usize = 8;
    const ROUNDS: usize = 25;
    let clients = context.clients(4).await;
    let key = fresh_key()?;
    let register = Arc::new(Register::default());
    let contenders = (0..TASKS).map(|index| {
        let (client, key) = (clients[index % clients.len()].clone(), key.clone());
        let register = Arc::clone(&register);
        async move {
            for round in 0..ROUNDS {
                let lock = loop {
                    if let Some(lock) = client.acquire(&key, LONG).await? {
                        break lock;
                    }
                    pause((index + round) as u64 % 4 + 1).await;
                };
                register.work(lock.fence).await?;
                client.released(lock.lock_id).await?;
            }
            Ok(())
        }
    });
    all(contenders).await?;
    ensure_eq!(register.entries(), TASKS * ROUNDS, "acquisitions");
    clients[0].free(&key).await?;
    Ok(())
}

pub(crate) async fn locked_work_never_overlaps<F: FenceToken>(context: &Context<'_, F>) -> Outcome {
    const TASKS: usize = 4;
    const ROUNDS: usize = 25;
    let clients = context.clients(TASKS).await;
    let key = fresh_key()?;
    let restless = AcquisitionOptions::new()
        .with_backoff(Backoff::Fixed)
        .with_retry_delay(Duration::from_millis(3))
        .with_max_retries(100_000)
        .with_timeout(LONG);
    let config = LockConfig::new(&key).with_ttl(LONG).with_acquisition(restless);
    let register = Arc::new(Register::default());
    let workers = clients.iter().map(|client| {
        let (config, register) = (config.clone(), Arc::clone(&register));
        let process = OtherProcess::new(client.backend().clone());
        async move {
            for _ in 0..ROUNDS {
                lock(&process, config.clone(), async |held| {
                    register.work(held.fence().fence()).await
                })
                .await
                .map_err(|error| Unexpected::error("lock()", &error))??;
            }
            Ok(())
        }
    });
    all(workers).await?;
    ensure_eq!(register.entries(), TASKS * ROUNDS, "pieces of work");
    clients[0].free(&key).await?;
    Ok(())
}

pub(crate) async fn different_keys_do_not_contend<F: FenceToken>(
    context: &Context<'_, F>,
) -> Outcome {
    const TASKS: usize = 32;
    let clients = context.clients(4).await;
    let barrier = Arc::new(Barrier::new(TASKS));
    let mut keys = Vec::new();
    for _ in 0..TASKS {
        keys.push(fresh_key()?);
    }
    let tasks = keys.into_iter().enumerate().map(|(index, key)| {
        let (client, barrier) = (clients[index % clients.len()].clone(), Arc::clone(&barrier));
        async move {
            barrier.wait().await;
            let lock = client.take(&key, LONG).await?;
            Ok((key, lock))
        }
    });
    for (key, lock) in all(tasks).await? {
        clients[0].live(&key, lock.lock_id).await?;
    }
    Ok(())
}

pub(crate) async fn one_of_many_releases_succeeds<F: FenceToken>(
    context: &Context<'_, F>,
) -> Outcome {
    let clients = context.clients(4).await;
    for _ in 0..5 {
        let key = fresh_key()?;
        let lock = clients[0].take(&key, LONG).await?;
        let barrier = Arc::new(Barrier::new(16));
        let releases = (0..16).map(|index| {
            let (client, barrier) = (clients[index % clients.len()].clone(), Arc::clone(&barrier));
            async move {
                barrier.wait().await;
                client.release(lock.lock_id).await
            }
        });
        let answers = all(releases).await?;
        let successes = answers.into_iter().filter(|answer| answer.is_released()).count();
        ensure_eq!(successes, 1, "releases of one lock that succeeded");
        clients[0].free(&key).await?;
        clients[0].take(&key, LONG).await?;
    }
    Ok(())
}

pub(crate) async fn racing_extends_leave_one_expiry<F: FenceToken>(
    context: &Context<'_, F>,
) -> Outcome {
    let clients = context.clients(4).await;
    for _ in 0..3 {
        let key = fresh_key()?;
        let lock = clients[0].take(&key, LONG).await?;
        let barrier = Arc::new(Barrier::new(8));
        let extends = (0..8_u32).map(|index| {
            let client = clients[index as usize % clients.len()].clone();
            let barrier = Arc::clone(&barrier);
            async move {
                barrier.wait().await;
                let ttl = LONG + Duration::from_secs(10) * index;
                client.extended(lock.lock_id, ttl).await
            }
        });
        let answers = all(extends).await?;
        let stored = clients[0].live(&key, lock.lock_id).await?.expires_at;
        ensure!(
            answers.contains(&stored),
            "the stored expiry is {stored:?}, the answers were {answers:?}"
        );
    }
    Ok(())
}

pub(crate) async fn an_extend_never_undoes_a_release<F: FenceToken>(
    context: &Context<'_, F>,
) -> Outcome {
    const EXTENDS: usize = 3;
    let clients = context.clients(4).await;
    for round in 0..20 {
        let key = fresh_key()?;
        let lock = clients[0].take(&key, LONG).await?;
        let barrier = Arc::new(Barrier::new(EXTENDS + 1));
        let tasks = (0..=EXTENDS).map(|index| {
            let (client, barrier) = (clients[index % clients.len()].clone(), Arc::clone(&barrier));
            async move {
                barrier.wait().await;
                if index == round % (EXTENDS + 1) {
                    client.released(lock.lock_id).await
                } else {
                    client.extend(lock.lock_id, 2 * LONG).await.map(|_| ())
                }
            }
        });
        all(tasks).await?;
        clients[0].free(&key).await?;
        clients[1].powerless(lock.lock_id).await?;
    }
    Ok(())
}

pub(crate) async fn one_request_sent_many_times_at_once_is_one_lock<F: FenceToken>(
    context: &Context<'_, F>,
) -> Outcome {
    const COPIES: usize = 8;
    let clients = context.clients(4).await;
    for _ in 0..5 {
        let key = fresh_key()?;
        let request = AcquireRequest::new(&key, LONG)?;
        let barrier = Arc::new(Barrier::new(COPIES));
        let copies = (0..COPIES).map(|index| {
            let (client, barrier) = (clients[index % clients.len()].clone(), Arc::clone(&barrier));
            let request = request.repeat();
            async move {
                barrier.wait().await;
                client.send_granted(request).await
            }
        });
        let answers = all(copies).await?;
        let Some(first) = answers.first() else {
            return Err(Stop::failed("no answer at all"));
        };
        ensure!(
            answers.iter().all(|answer| answer == first),
            "one request was answered in several ways: {answers:?}"
        );
        let seen = clients[0].live(&key, request.lock_id).await?;
        ensure_eq!((seen.fence, seen.expires_at), (first.fence, first.expires_at), "the lock");
    }
    Ok(())
}

pub(crate) async fn an_old_holder_cannot_disturb_its_heirs<F: FenceToken>(
    context: &Context<'_, F>,
) -> Outcome {
    let clients = context.clients(4).await;
    let mut expired = Vec::new();
    for _ in 0..8 {
        let key = fresh_key()?;
        expired.push((clients[0].take(&key, SHORT).await?.lock_id, key));
    }
    context.outlive(SHORT).await;
    for (old, key) in expired {
        let barrier = Arc::new(Barrier::new(12));
        let tasks = (0..12).map(|index| {
            let client = clients[index % clients.len()].clone();
            let (key, barrier) = (key.clone(), Arc::clone(&barrier));
            async move {
                barrier.wait().await;
                step(&client, index, &key, old).await
            }
        });
        let heir = only_one(all(tasks).await?)?;
        let seen = clients[0].live(&key, heir.lock_id).await?;
        ensure_eq!(seen.expires_at, heir.expires_at, "the expiry of the heir's lock");
        clients[0].released(heir.lock_id).await?;
    }
    Ok(())
}

/// The action of one racer for an expired lock.
async fn step<F: FenceToken>(
    client: &Client<F>,
    index: usize,
    key: &Key,
    old: LockId,
) -> Result<Option<Granted>, Unexpected> {
    match index % 3 {
        0 => client.not_released(old).await.map(|_| None),
        1 => client.not_extended(old, 2 * LONG).await.map(|_| None),
        _ => client.acquire(key, LONG).await,
    }
}

/// Sends many acquires of one key at the same time, and returns the one that was granted.
async fn race<F: FenceToken>(
    clients: &[Client<F>],
    key: &Key,
    racers: usize,
) -> Result<Granted, Stop> {
    let barrier = Arc::new(Barrier::new(racers));
    let tasks = (0..racers).map(|index| {
        let client = clients[index % clients.len()].clone();
        let (key, barrier) = (key.clone(), Arc::clone(&barrier));
        async move {
            barrier.wait().await;
            client.acquire(&key, LONG).await
        }
    });
    only_one(all(tasks).await?)
}

fn only_one(answers: Vec<Option<Granted>>) -> Result<Granted, Stop> {
    let granted: Vec<_> = answers.into_iter().flatten().collect();
    match granted[..] {
        [winner] => Ok(winner),
        _ => Err(Stop::failed(format!("{} racers got the same key", granted.len()))),
    }
}
