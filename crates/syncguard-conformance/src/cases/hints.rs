//! Key hints. A hint says where to look first; the lock id alone decides.

use syncguard_core::contract::{ExtendRequest, LookupRequest, ReleaseRequest};
use syncguard_core::{ExtendResult, Key, LockBackend, LockId, NotHeld, ReleaseResult};

use crate::client::{Client, Granted};
use crate::context::{Context, HeldLock, LONG, fresh_key};
use crate::outcome::{Checked, Outcome, Stop, Unexpected, answer, ensure, ensure_eq};

/// Returns true if a lookup finds the lock with this id.
async fn find(client: &Client, lock_id: LockId, hint: &Key) -> Checked<bool> {
    let request = LookupRequest::by_lock_id(lock_id).with_key_hint(hint.clone());
    let Some(info) = client.find(request).await? else { return Ok(false) };
    if info.lock_id.hash_id() != lock_id.hash_id() {
        return Err(Unexpected::new("a lookup with a hint found another lock than that of the id"));
    }
    Ok(true)
}

async fn extend(client: &Client, lock_id: LockId, hint: &Key) -> Checked<ExtendResult> {
    let request = ExtendRequest::new(lock_id, 2 * LONG)?.with_key_hint(hint.clone());
    answer("extend with a hint", client.backend().extend(request).await)
}

async fn release(client: &Client, lock_id: LockId, hint: &Key) -> Checked<ReleaseResult> {
    let request = ReleaseRequest::new(lock_id).with_key_hint(hint.clone());
    answer("release with a hint", client.backend().release(request).await)
}

/// Checks that a lock id holds nothing, by each operation with this hint.
async fn is_powerless(client: &Client, lock_id: LockId, hint: &Key) -> Outcome {
    const NOT_FOUND: NotHeld = NotHeld::NotFound;
    ensure!(!find(client, lock_id, hint).await?, "a lookup with a hint found a lock");
    let extended = extend(client, lock_id, hint).await?;
    ensure_eq!(extended, ExtendResult::NotHeld(NOT_FOUND), "the answer to an extend with a hint");
    let released = release(client, lock_id, hint).await?;
    ensure_eq!(released, ReleaseResult::NotHeld(NOT_FOUND), "the answer to a release with a hint");
    Ok(())
}

/// Takes two keys.
async fn two_locks(client: &Client) -> Result<[(Key, Granted); 2], Stop> {
    let (first, second) = (fresh_key()?, fresh_key()?);
    let locks = [client.take(&first, LONG).await?, client.take(&second, LONG).await?];
    Ok([(first, locks[0]), (second, locks[1])])
}

pub(crate) async fn a_right_hint_changes_no_answer(context: &Context<'_>) -> Outcome {
    let HeldLock { client, other, key, lock, .. } = context.held().await?;
    for client in [&other, &client] {
        ensure!(find(client, lock.lock_id, &key).await?, "a lookup with a hint found nothing");
        let extended = extend(client, lock.lock_id, &key).await?;
        ensure!(extended.is_extended(), "an extend with a hint answered {extended:?}");
        client.live(&key, lock.lock_id).await?;
    }
    let released = release(&other, lock.lock_id, &key).await?;
    ensure_eq!(released, ReleaseResult::Released, "the answer to a release with a hint");
    client.free(&key).await?;
    is_powerless(&client, lock.lock_id, &key).await
}

pub(crate) async fn a_wrong_hint_finds_the_lock_of_the_id(context: &Context<'_>) -> Outcome {
    let (client, other) = context.pair().await;
    let [(_, lock), (hint, _)] = two_locks(&client).await?;
    for client in [&client, &other] {
        for hint in [&hint, &fresh_key()?] {
            ensure!(find(client, lock.lock_id, hint).await?, "a wrong hint hid the lock of the id");
        }
    }
    Ok(())
}

pub(crate) async fn a_wrong_hint_extends_the_lock_of_the_id(context: &Context<'_>) -> Outcome {
    let (client, other) = context.pair().await;
    let [(key, lock), (hint, hinted)] = two_locks(&client).await?;
    let before = client.live(&hint, hinted.lock_id).await?;
    for client in [&client, &other] {
        for hint in [&hint, &fresh_key()?] {
            let extended = extend(client, lock.lock_id, hint).await?;
            let ExtendResult::Extended { expires_at } = extended else {
                return Err(Stop::failed(format!(
                    "extend with a wrong hint answered {extended:?}"
                )));
            };
            let stored = client.live(&key, lock.lock_id).await?.expires_at;
            ensure_eq!(stored, expires_at, "the expiry after an extend with a wrong hint");
        }
    }
    Ok(client.unchanged(&hint, hinted.lock_id, before).await?)
}

pub(crate) async fn a_wrong_hint_releases_the_lock_of_the_id(context: &Context<'_>) -> Outcome {
    let (client, other) = context.pair().await;
    for (from, free) in [(&client, false), (&client, true), (&other, false), (&other, true)] {
        let [(key, lock), (held, hinted)] = two_locks(&client).await?;
        let before = client.live(&held, hinted.lock_id).await?;
        let hint = if free { fresh_key()? } else { held.clone() };
        let released = release(from, lock.lock_id, &hint).await?;
        ensure_eq!(released, ReleaseResult::Released, "the answer to a release with a wrong hint");
        client.free(&key).await?;
        client.unchanged(&held, hinted.lock_id, before).await?;
    }
    Ok(())
}

pub(crate) async fn a_hint_gives_other_ids_nothing(context: &Context<'_>) -> Outcome {
    let HeldLock { client, other: rival, key, lock: old, .. } = context.held().await?;
    client.released(old.lock_id).await?;
    let lock = rival.take(&key, LONG).await?;
    let before = rival.live(&key, lock.lock_id).await?;
    for client in [&client, &rival] {
        is_powerless(client, LockId::generate()?, &key).await?;
        is_powerless(client, old.lock_id, &key).await?;
    }
    Ok(rival.unchanged(&key, lock.lock_id, before).await?)
}

pub(crate) async fn any_key_can_be_a_hint(context: &Context<'_>) -> Outcome {
    let client = context.client().await;
    let id = LockId::generate()?;
    // Among them are names that a store uses for its own records and may refuse as keys.
    let texts = [
        format!("id:{}", id.expose()),
        id.expose().to_owned(),
        format!("fence:{}", fresh_key()?.expose()),
        "fence:syncguard:x".to_owned(),
        "..".to_owned(),
        "/".to_owned(),
        "{}".to_owned(),
        "x".repeat(Key::MAX_LENGTH_BYTES),
    ];
    for text in &texts {
        let hint = Key::new(text)?;
        let key = fresh_key()?;
        let lock = client.take(&key, LONG).await?;
        ensure!(find(&client, lock.lock_id, &hint).await?, "a hint hid the lock of the id");
        let extended = extend(&client, lock.lock_id, &hint).await?;
        ensure!(extended.is_extended(), "an extend with a hint answered {extended:?}");
        let released = release(&client, lock.lock_id, &hint).await?;
        ensure_eq!(released, ReleaseResult::Released, "the answer to a release with a hint");
        is_powerless(&client, lock.lock_id, &hint).await?;
        client.free(&key).await?;
    }
    Ok(())
}
