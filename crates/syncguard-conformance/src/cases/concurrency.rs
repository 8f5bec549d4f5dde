//! Races.

use std::sync::Arc;
use std::time::Duration;

use syncguard_core::contract::AcquireRequest;
use syncguard_core::{Key, LockConfig, LockId, lock};

use crate::client::{Client, Granted};
use crate::context::{Context, LONG, SHORT, fresh_key, polling_every};
use crate::other_process::OtherProcess;
use crate::outcome::{Checked, Outcome, Stop, answer, ensure, ensure_eq};
use crate::tasks::{Register, all, at_once, pause};

pub(crate) async fn one_of_many_racers_wins(context: &Context<'_>) -> Outcome {
    let clients = context.clients(4).await;
    for _ in 0..5 {
        let key = fresh_key()?;
        let winner = race(&clients, &key, 32).await?;
        clients[0].live(&key, winner.lock_id).await?;
    }
    Ok(())
}

pub(crate) async fn an_expired_lock_has_one_heir(context: &Context<'_>) -> Outcome {
    let clients = context.clients(4).await;
    for (old, key) in expired(context, &clients[0], 5).await? {
        let heir = race(&clients, &key, 16).await?;
        clients[0].live(&key, heir.lock_id).await?;
        clients[0].powerless(old).await?;
    }
    Ok(())
}

pub(crate) async fn locks_of_one_key_never_overlap(context: &Context<'_>) -> Outcome {
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
    Ok(clients[0].free(&key).await?)
}

pub(crate) async fn locked_work_never_overlaps(context: &Context<'_>) -> Outcome {
    const TASKS: usize = 4;
    const ROUNDS: usize = 25;
    let clients = context.clients(TASKS).await;
    let key = fresh_key()?;
    let restless = polling_every(Duration::from_millis(3));
    let config = LockConfig::new(&key).with_ttl(LONG).with_acquisition(restless);
    let register = Arc::new(Register::default());
    let workers = clients.iter().map(|client| {
        let (config, register) = (config.clone(), Arc::clone(&register));
        let fences = client.fences();
        let process = OtherProcess::new(client.backend().clone());
        async move {
            for _ in 0..ROUNDS {
                let work = lock(&process, config.clone(), async |held| {
                    register.work(fences.then_some(held.fence())).await
                });
                answer("lock()", work.await)??;
            }
            Ok(())
        }
    });
    all(workers).await?;
    ensure_eq!(register.entries(), TASKS * ROUNDS, "pieces of work");
    Ok(clients[0].free(&key).await?)
}

pub(crate) async fn different_keys_do_not_contend(context: &Context<'_>) -> Outcome {
    let clients = context.clients(4).await;
    let answers = at_once(&clients, 32, |_, client| async move {
        let key = fresh_key()?;
        let lock = client.take(&key, LONG).await?;
        Ok((key, lock))
    });
    for (key, lock) in answers.await? {
        clients[0].live(&key, lock.lock_id).await?;
    }
    Ok(())
}

pub(crate) async fn one_of_many_releases_succeeds(context: &Context<'_>) -> Outcome {
    let clients = context.clients(4).await;
    for _ in 0..5 {
        let key = fresh_key()?;
        let lock = clients[0].take(&key, LONG).await?;
        let release = |_, client: Client| async move { client.release(lock.lock_id).await };
        let answers = at_once(&clients, 16, release).await?;
        let successes = answers.into_iter().filter(|answer| answer.is_released()).count();
        ensure_eq!(successes, 1, "releases of one lock that succeeded");
        clients[0].free(&key).await?;
        clients[0].take(&key, LONG).await?;
    }
    Ok(())
}

pub(crate) async fn racing_extends_leave_one_expiry(context: &Context<'_>) -> Outcome {
    let clients = context.clients(4).await;
    for _ in 0..3 {
        let key = fresh_key()?;
        let lock = clients[0].take(&key, LONG).await?;
        let answers = at_once(&clients, 8, |index, client| async move {
            let ttl = LONG + Duration::from_secs(10 * index as u64);
            client.extended(lock.lock_id, ttl).await
        });
        let answers = answers.await?;
        let stored = clients[0].live(&key, lock.lock_id).await?.expires_at;
        ensure!(
            answers.contains(&stored),
            "the stored expiry is {stored:?}, the answers were {answers:?}"
        );
    }
    Ok(())
}

pub(crate) async fn an_extend_never_undoes_a_release(context: &Context<'_>) -> Outcome {
    const TASKS: usize = 4;
    let clients = context.clients(TASKS).await;
    for round in 0..20 {
        let key = fresh_key()?;
        let lock = clients[0].take(&key, LONG).await?;
        let tasks = at_once(&clients, TASKS, |index, client| async move {
            if index == round % TASKS {
                client.released(lock.lock_id).await
            } else {
                client.extend(lock.lock_id, 2 * LONG).await.map(drop)
            }
        });
        tasks.await?;
        clients[0].free(&key).await?;
        clients[1].powerless(lock.lock_id).await?;
    }
    Ok(())
}

pub(crate) async fn one_request_sent_many_times_at_once_is_one_lock(
    context: &Context<'_>,
) -> Outcome {
    let clients = context.clients(4).await;
    for _ in 0..5 {
        let key = fresh_key()?;
        let request = AcquireRequest::new(&key, LONG)?;
        let answers = at_once(&clients, 8, |_, client| {
            let request = request.repeat();
            async move { client.send_granted(request).await }
        });
        let answers = answers.await?;
        let first = answers[0];
        ensure!(
            answers.iter().all(|answer| *answer == first),
            "one request was answered in several ways: {answers:?}"
        );
        let seen = clients[0].live(&key, request.lock_id).await?;
        ensure_eq!((seen.fence, seen.expires_at), (first.fence, first.expires_at), "the lock");
    }
    Ok(())
}

pub(crate) async fn an_old_holder_cannot_disturb_its_heirs(context: &Context<'_>) -> Outcome {
    let clients = context.clients(4).await;
    for (old, key) in expired(context, &clients[0], 8).await? {
        let answers = at_once(&clients, 12, |index, client| {
            let key = key.clone();
            async move {
                match index % 3 {
                    0 => client.not_released(old).await.map(|_| None),
                    1 => client.not_extended(old, 2 * LONG).await.map(|_| None),
                    _ => client.acquire(&key, LONG).await,
                }
            }
        });
        let heir = only_one(answers.await?)?;
        let seen = clients[0].live(&key, heir.lock_id).await?;
        ensure_eq!(seen.expires_at, heir.expires_at, "the expiry of the heir's lock");
        clients[0].released(heir.lock_id).await?;
    }
    Ok(())
}

/// Locks that are over: their ids and keys.
async fn expired(
    context: &Context<'_>,
    client: &Client,
    count: usize,
) -> Checked<Vec<(LockId, Key)>> {
    let mut expired = Vec::new();
    for _ in 0..count {
        let key = fresh_key()?;
        expired.push((client.take(&key, SHORT).await?.lock_id, key));
    }
    context.outlive(SHORT).await;
    Ok(expired)
}

/// Sends many acquires of one key at the same time, and returns the one that was granted.
async fn race(clients: &[Client], key: &Key, racers: usize) -> Result<Granted, Stop> {
    let answers = at_once(clients, racers, |_, client| {
        let key = key.clone();
        async move { client.acquire(&key, LONG).await }
    });
    only_one(answers.await?)
}

fn only_one(answers: Vec<Option<Granted>>) -> Result<Granted, Stop> {
    let granted: Vec<_> = answers.into_iter().flatten().collect();
    match granted[..] {
        [winner] => Ok(winner),
        _ => Err(Stop::failed(format!("{} racers got the same key", granted.len()))),
    }
}
