//! Extends with an expected expiry.

use std::time::Duration;

use syncguard_core::contract::LookupRequest;
use syncguard_core::{ExtendResult, LockConfig, LockId, Timestamp, acquire};
use tokio::time::Instant;

use crate::context::{ATTEMPTS, Context, HeldLock, LONG, SHORT, fresh_key, too_slow};
use crate::outcome::{Outcome, Stop, Unexpected, ensure, ensure_eq};
use crate::tasks::at_once;

pub(crate) async fn the_stored_expiry_is_expected_rightly(context: &Context<'_>) -> Outcome {
    let HeldLock { client, other, key, lock, before } = context.held().await?;
    let mut expected = lock.expires_at;
    // Longer and shorter extends, each with the expiry of the last answer.
    for ttl in [3 * LONG, LONG, 2 * LONG] {
        match other.extend_expecting(lock.lock_id, ttl, expected).await? {
            ExtendResult::Extended { expires_at } => expected = expires_at,
            answer => return Err(Stop::failed(format!("the expiry was right: {answer:?}"))),
        }
        let seen = client.live(&key, lock.lock_id).await?;
        ensure_eq!(seen.expires_at, expected, "the stored expiry");
        ensure_eq!(seen.fence, before.fence, "the fence");
        ensure_eq!(seen.acquired_at, before.acquired_at, "the time of acquisition");
    }
    Ok(())
}

pub(crate) async fn another_expected_expiry_changes_nothing(context: &Context<'_>) -> Outcome {
    let (client, other) = context.pair().await;
    let key = fresh_key()?;
    let lock = client.take(&key, 2 * LONG).await?;
    let before = client.live(&key, lock.lock_id).await?;
    let stored = lock.expires_at.as_millis();
    for expected in [stored - 1, stored + 1, stored - 60_000, stored + 60_000, 0] {
        let expected = Timestamp::from_millis(expected)?;
        for ttl in [LONG, 3 * LONG] {
            let answer = other.extend_expecting(lock.lock_id, ttl, expected).await?;
            let stored = ExtendResult::Mismatch { expires_at: lock.expires_at };
            ensure_eq!(answer, stored, "the answer to an extend that expects {expected:?}");
            client.unchanged(&key, lock.lock_id, before).await?;
        }
    }
    client.released(lock.lock_id).await?;
    Ok(client.free(&key).await?)
}

pub(crate) async fn an_older_extend_that_comes_late_never_shortens(
    context: &Context<'_>,
) -> Outcome {
    let (client, other) = context.pair().await;
    let key = fresh_key()?;
    let lock = client.take(&key, 2 * LONG).await?;
    // Both extends were sent with this expectation, and the younger one was faster.
    let known = lock.expires_at;
    let ExtendResult::Extended { expires_at } =
        client.extend_expecting(lock.lock_id, 3 * LONG, known).await?
    else {
        return Err(Stop::failed("the younger extend was not carried out"));
    };
    let before = client.live(&key, lock.lock_id).await?;
    let answer = other.extend_expecting(lock.lock_id, LONG, known).await?;
    ensure_eq!(answer, ExtendResult::Mismatch { expires_at }, "the answer to the older extend");
    client.unchanged(&key, lock.lock_id, before).await?;
    // The other way round: an older extend must not lengthen a lock that was shortened since.
    let shorter = client.extend_expecting(lock.lock_id, LONG, expires_at).await?;
    ensure!(shorter.is_extended(), "a shorter extend answered {shorter:?}");
    let before = client.live(&key, lock.lock_id).await?;
    let answer = other.extend_expecting(lock.lock_id, 3 * LONG, expires_at).await?;
    ensure!(matches!(answer, ExtendResult::Mismatch { .. }), "an older extend: {answer:?}");
    Ok(client.unchanged(&key, lock.lock_id, before).await?)
}

pub(crate) async fn every_extend_changes_the_expiry(context: &Context<'_>) -> Outcome {
    const EXTENDS: u32 = 40;
    let HeldLock { client, key, lock, .. } = context.held().await?;
    let (started, mut known) = (Instant::now(), lock.expires_at);
    for _ in 0..EXTENDS {
        // Shorter by the time that has passed, so that many extends ask for the same millisecond.
        let elapsed = Duration::from_millis(millis(started.elapsed()));
        let ttl = (2 * LONG).saturating_sub(elapsed).max(LONG);
        let expires_at = client.extended(lock.lock_id, ttl).await?;
        ensure!(expires_at != known, "an extend has left the expiry as it was");
        known = expires_at;
    }
    let seen = client.live(&key, lock.lock_id).await?;
    ensure_eq!(seen.expires_at, known, "the stored expiry");
    Ok(())
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

pub(crate) async fn a_lost_lock_is_not_held_whatever_is_expected(context: &Context<'_>) -> Outcome {
    let (client, rival) = context.pair().await;
    let key = fresh_key()?;
    let unknown = LockId::generate()?;
    let released = client.take(&key, LONG).await?;
    client.released(released.lock_id).await?;
    let expired = client.take(&key, SHORT).await?;
    context.outlive(SHORT).await;
    let lost = [
        ("an unknown id", unknown, released.expires_at),
        ("a released lock", released.lock_id, released.expires_at),
        ("an expired lock", expired.lock_id, expired.expires_at),
    ];
    // Once while the key is free, and once while another caller holds it.
    for _ in 0..2 {
        for (what, lock_id, last) in lost {
            for expected in [last, Timestamp::from_millis(last.as_millis() + 60_000)?] {
                let answer = client.extend_expecting(lock_id, LONG, expected).await?;
                ensure!(
                    matches!(answer, ExtendResult::NotHeld(_)),
                    "an extend of {what} that expects {expected:?} answered {answer:?}"
                );
            }
        }
        match rival.acquire(&key, LONG).await? {
            Some(next) => rival.live(&key, next.lock_id).await.map(drop)?,
            None => return Ok(()),
        }
    }
    Ok(())
}

pub(crate) async fn the_expectation_counts_within_the_tolerance(context: &Context<'_>) -> Outcome {
    let (client, rival) = context.pair().await;
    for _ in 0..ATTEMPTS {
        let key = fresh_key()?;
        let watch = context.watch();
        let lock = client.take(&key, SHORT).await?;
        let wrong = Timestamp::from_millis(lock.expires_at.as_millis() + 1)?;
        watch.enter_tolerance(SHORT).await;
        let refused = client.extend_expecting(lock.lock_id, LONG, wrong).await?;
        let result = client.extend_expecting(lock.lock_id, LONG, lock.expires_at).await?;
        if watch.within_tolerance(SHORT) {
            let stored = ExtendResult::Mismatch { expires_at: lock.expires_at };
            ensure_eq!(refused, stored, "another expectation within the tolerance");
            ensure!(result.is_extended(), "the right one within the tolerance: {result:?}");
            rival.refused(&key, LONG).await?;
            return Ok(());
        }
    }
    Err(too_slow())
}

pub(crate) async fn each_extend_of_a_batch_has_an_answer_of_its_own(
    context: &Context<'_>,
) -> Outcome {
    let (client, other) = context.pair().await;
    let expired = client.take(&fresh_key()?, SHORT).await?;
    context.outlive(SHORT).await;
    let (moved, released) = (fresh_key()?, fresh_key()?);
    let mut locks = Vec::new();
    for key in [moved, released.clone(), fresh_key()?, fresh_key()?, fresh_key()?] {
        locks.push(client.take(&key, LONG).await?);
    }
    let stored = other.extended(locks[0].lock_id, 2 * LONG).await?;
    client.released(locks[1].lock_id).await?;
    let heir = other.take(&released, LONG).await?;
    let unknown = LockId::generate()?;
    // The last one twice.
    let asked = locks.iter().chain(&locks[4..]).chain([&expired]);
    let mut asked: Vec<_> = asked.map(|lock| (lock.lock_id, lock.expires_at)).collect();
    asked.push((unknown, expired.expires_at));
    let clients = [client.clone()];
    let answers = at_once(&clients, asked.len(), |number, client| {
        // A TTL of its own shows whose answer it is.
        let (ttl, (lock_id, expected)) = (seconds_of(number) + 3 * LONG, asked[number]);
        async move { Ok((number, client.extend_with_others(lock_id, ttl, expected).await?)) }
    });
    let mut answers = answers.await?;
    answers.sort_unstable_by_key(|(number, _)| *number);
    let answers: Vec<_> = answers.into_iter().map(|(_, answer)| answer).collect();
    ensure_eq!(
        answers[0],
        ExtendResult::Mismatch { expires_at: stored },
        "a lock that has moved on"
    );
    for (number, what) in [(1, "a released"), (6, "an expired"), (7, "an unknown")] {
        let answer = answers[number];
        ensure!(matches!(answer, ExtendResult::NotHeld(_)), "{what} lock answered {answer:?}");
    }
    ensure!(answers[4].is_extended() != answers[5].is_extended(), "twice: {:?}", &answers[4..6]);
    for (number, answer) in answers.iter().enumerate() {
        let ExtendResult::Extended { expires_at } = answer else { continue };
        let info = other.find(LookupRequest::by_lock_id(asked[number].0)).await?;
        let seen = info.map(|info| info.expires_at);
        ensure_eq!(seen, Some(*expires_at), "the stored expiry of lock {number}");
        let more = (*expires_at - asked[number].1).saturating_sub(2 * LONG);
        ensure!(more >= seconds_of(number), "lock {number} has the TTL of another");
    }
    ensure!(answers[2].is_extended() && answers[3].is_extended(), "live: {:?}", &answers[2..4]);
    other.live(&released, heir.lock_id).await.map(drop)?;
    Ok(())
}

/// The difference of its TTL from that of others.
fn seconds_of(number: usize) -> Duration {
    Duration::from_secs(10 * number as u64)
}

pub(crate) async fn of_many_extends_with_one_expectation_one_applies(
    context: &Context<'_>,
) -> Outcome {
    const EXTENDS: usize = 8;
    let clients = context.clients(4).await;
    for _ in 0..5 {
        let key = fresh_key()?;
        let lock = clients[0].take(&key, LONG).await?;
        let answers = at_once(&clients, EXTENDS, |number, client| async move {
            let ttl = 2 * LONG + Duration::from_secs(number as u64);
            client.extend_expecting(lock.lock_id, ttl, lock.expires_at).await
        });
        let answers = answers.await?;
        let applied: Vec<_> = answers.iter().filter(|answer| answer.is_extended()).collect();
        ensure!(applied.len() == 1, "of {EXTENDS} extends {} were applied", applied.len());
        let stored = clients[1].live(&key, lock.lock_id).await?.expires_at;
        for answer in answers {
            let said = match answer {
                ExtendResult::Extended { expires_at } | ExtendResult::Mismatch { expires_at } => {
                    expires_at
                }
                other => return Err(Unexpected::new(format!("an extend said {other:?}")).into()),
            };
            ensure_eq!(said, stored, "the expiry in the answer {answer:?}");
        }
    }
    Ok(())
}

pub(crate) async fn a_guard_goes_on_from_the_stored_expiry(context: &Context<'_>) -> Outcome {
    let (client, other) = context.pair().await;
    let key = fresh_key()?;
    let config = LockConfig::new(&key).with_ttl(LONG);
    let mut guard = acquire(client.backend(), config).await?;
    // An extend of the guard that was given up but still arrived.
    other.extended(guard.lock_id(), 2 * LONG).await?;
    let answer = guard.extend(3 * LONG).await?;
    let seen = other.live(&key, guard.lock_id()).await?;
    let expected = ExtendResult::Extended { expires_at: seen.expires_at };
    ensure_eq!(answer, expected, "the guard's answer");
    ensure!(guard.valid_for() > 2 * LONG, "the guard relies on {:?}", guard.valid_for());
    ensure!(guard.release().await?.is_released(), "the guard had lost its lock");
    Ok(())
}
