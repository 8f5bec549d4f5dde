//! Lookups, which change nothing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use syncguard_core::authoring::hash_key;
use syncguard_core::contract::{AcquireRequest, HashId, Holder, LookupRequest};
use syncguard_core::diagnostics::{get_by_id, get_by_key, owns};
use syncguard_core::inventory::ListRequest;
use syncguard_core::{Key, LockBackend as _, LockId, LockInfo};

use crate::client::{Client, Seen};
use crate::context::{ATTEMPTS, Context, HeldLock, LONG, SHORT, fresh_key, fresh_text, too_slow};
use crate::outcome::{Checked, Outcome, Stop, Unexpected, answer, ensure, ensure_eq};
use crate::tasks::{at_once, pause};

pub(crate) async fn a_lookup_shows_the_lock(context: &Context<'_>) -> Outcome {
    let HeldLock { client, other, key, lock, .. } = context.held().await?;
    // A lookup by lock id must not find another one, either.
    client.take(&fresh_key()?, LONG).await?;
    let Some(seen) = other.by_key(&key).await? else {
        return Err(Stop::failed("lookup by key found nothing of a live lock"));
    };
    let expected = Seen {
        key: key.hash_id(),
        lock_id: lock.lock_id.hash_id(),
        acquired_at: seen.acquired_at,
        expires_at: lock.expires_at,
        fence: lock.fence,
    };
    ensure_eq!(seen, expected, "the lock by its key");
    ensure!(seen.acquired_at < seen.expires_at, "the lock ends before it begins: {seen:?}");
    ensure_eq!(other.by_id(lock.lock_id).await?, Some(seen), "the lock by its id");
    Ok(())
}

pub(crate) async fn a_lookup_of_nothing_is_none(context: &Context<'_>) -> Outcome {
    let client = context.client().await;
    client.take(&fresh_key()?, LONG).await?;
    ensure_eq!(client.by_key(&fresh_key()?).await?, None, "the lookup of a fresh key");
    ensure_eq!(client.by_id(LockId::generate()?).await?, None, "the lookup of a fresh id");
    Ok(())
}

pub(crate) async fn a_lookup_shows_the_holder_of_the_lock_or_none(
    context: &Context<'_>,
) -> Outcome {
    let (client, other) = context.pair().await;
    let key = fresh_key()?;
    let (first, second) = (Holder::new("first \"1\" \\ \u{e9}")?, Holder::new("second")?);
    let first = first.with_note("run 1, its \u{1f980}")?;
    let mut keeps = None;
    // The second lock has no note, the third one no holder at all, and the fourth follows an expiry.
    for (holder, expires) in
        [(Some(&first), false), (Some(&second), false), (None, true), (Some(&first), false)]
    {
        let asked = holder.cloned().unwrap_or_else(Holder::unnamed);
        let request = AcquireRequest::new(&key, LONG)?.with_holder(asked);
        let lock_id = client.send_granted(request).await?.lock_id;
        for after in ["the acquire", "an extend"] {
            let seen = looks(&other, &key, Some(lock_id)).await?;
            ensure!(seen.len() > 1, "lookup found nothing of a live lock");
            let keeps = *keeps.get_or_insert(seen[0].holder.is_some());
            let expected = holder.filter(|_| keeps);
            let all = seen.iter().all(|info| info.holder.as_ref() == expected);
            ensure!(all, "after {after} the holder is {seen:?}, not {expected:?}");
            client.extended(lock_id, LONG).await?;
        }
        if expires {
            client.extended(lock_id, SHORT).await?;
            context.outlive(SHORT).await;
        } else {
            client.released(lock_id).await?;
        }
    }
    Ok(())
}

pub(crate) async fn no_look_shows_the_holder_of_another_lock(context: &Context<'_>) -> Outcome {
    const TAKERS: usize = 3;
    let clients = context.clients(TAKERS + 1).await;
    let (key, asked) = (fresh_key()?, Asked::default());
    let takers = at_once(&clients[..TAKERS], TAKERS, |number, client| {
        let (key, asked) = (key.clone(), Arc::clone(&asked));
        async move { take_and_release(number, &client, &key, &asked).await }
    });
    tokio::select! {
        done = takers => drop(done?),
        wrong = look_on(&clients[TAKERS], &key, &asked) => wrong?,
    }
    Ok(())
}

/// The holder of each lock that was asked for, by the hash of its id.
type Asked = Arc<Mutex<HashMap<HashId, Option<Holder>>>>;

async fn take_and_release(number: usize, client: &Client, key: &Key, asked: &Asked) -> Checked<()> {
    let (mut taken, mut refused) = (0, 0);
    while taken < 15 {
        let request = AcquireRequest::new(key, LONG)?;
        let lock_id = request.lock_id;
        let holder = Holder::new(format!("taker {number}"))?.with_note(format!("lock {taken}"))?;
        // The first taker has no name.
        let holder = (number > 0).then_some(holder);
        entries(asked).insert(lock_id.hash_id(), holder.clone());
        let request = request.with_holder(holder.unwrap_or_else(Holder::unnamed));
        if client.send(request).await?.is_some() {
            shows_right_holders(&looks(client, key, Some(lock_id)).await?, asked)?;
            client.released(lock_id).await?;
            taken += 1;
        } else {
            refused += 1;
            ensure!(
                refused < 5000,
                "a key that others take and release was refused {refused} times"
            );
        }
        pause(number as u64 + 1 + refused / 10).await;
    }
    Ok(())
}

fn entries(asked: &Asked) -> MutexGuard<'_, HashMap<HashId, Option<Holder>>> {
    asked.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends if a look shows another lock's holder.
async fn look_on(client: &Client, key: &Key, asked: &Asked) -> Checked<()> {
    loop {
        shows_right_holders(&looks(client, key, None).await?, asked)?;
        pause(5).await;
    }
}

/// A store may keep no holders.
fn shows_right_holders(seen: &[LockInfo], asked: &Asked) -> Checked<()> {
    let asked = entries(asked);
    for info in seen.iter().filter(|info| info.holder.is_some()) {
        let own = asked.get(&info.lock_id.hash_id());
        if own != Some(&info.holder) {
            let message = format!("a lock of the holder {own:?} is shown as {info:?}");
            return Err(Unexpected::new(message));
        }
    }
    Ok(())
}

/// The views of a key's lock: by key, by lock id, and in a listing if the backend has one.
async fn looks(client: &Client, key: &Key, lock_id: Option<LockId>) -> Checked<Vec<LockInfo>> {
    let mut seen = Vec::from_iter(client.find(LookupRequest::by_key(key)?).await?);
    if let Some(lock_id) = lock_id {
        seen.extend(client.find(LookupRequest::by_lock_id(lock_id)).await?);
    }
    if let Some(inventory) = client.backend().inventory() {
        let request = ListRequest::new().with_prefix(key.expose());
        let page = answer("list_locks", inventory.list_locks(request).await)?;
        seen.extend(page.entries);
    }
    Ok(seen)
}

pub(crate) async fn a_lookup_shows_hashes(context: &Context<'_>) -> Outcome {
    let client = context.client().await;
    let fresh = fresh_text()?;
    // The hash is that of the normalised text.
    let spelled = format!("cafe\u{301}-{fresh}");
    let lock = client.take(&Key::new(&spelled)?, LONG).await?;
    let seen = client.live(&Key::new(&spelled)?, lock.lock_id).await?;
    ensure_eq!(seen.key, hash_key(&format!("caf\u{e9}-{fresh}")), "the hash of the key");
    ensure_eq!(seen.lock_id, hash_key(lock.lock_id.expose()), "the hash of the lock id");
    Ok(())
}

pub(crate) async fn a_lookup_exposes_the_users_key_and_lock_id(context: &Context<'_>) -> Outcome {
    let client = context.client().await;
    let fresh = fresh_text()?;
    let longest = format!("{fresh}{}", "x".repeat(Key::MAX_LENGTH_BYTES - fresh.len()));
    for text in [format!("plain-{fresh}"), format!("{fresh}/a b:c\u{1f980}"), longest] {
        let key = Key::new(&text)?;
        let lock = client.take(&key, LONG).await?;
        for by in [LookupRequest::by_key(&key)?, LookupRequest::by_lock_id(lock.lock_id)] {
            let Some(info) = client.find(by).await? else {
                return Err(Stop::failed("lookup found nothing of a live lock"));
            };
            ensure_eq!(info.key.expose(), text, "the exposed key");
            ensure_eq!(info.lock_id.expose(), lock.lock_id.expose(), "the exposed lock id");
        }
    }
    Ok(())
}

pub(crate) async fn an_extend_keeps_the_time_of_acquisition(context: &Context<'_>) -> Outcome {
    let HeldLock { client, key, lock, before, .. } = context.held().await?;
    context.pass(Duration::from_millis(20)).await;
    client.extended(lock.lock_id, LONG).await?;
    let after = client.live(&key, lock.lock_id).await?;
    ensure_eq!(after.acquired_at, before.acquired_at, "the time of acquisition");
    Ok(())
}

pub(crate) async fn looking_changes_nothing(context: &Context<'_>) -> Outcome {
    let HeldLock { client, other, key, lock, before } = context.held().await?;
    for _ in 0..25 {
        context.pass(Duration::from_millis(1)).await;
        ensure_eq!(other.by_key(&key).await?, Some(before), "the lock by its key");
        ensure_eq!(other.by_id(lock.lock_id).await?, Some(before), "the lock by its id");
        ensure!(other.is_locked(&key).await?, "is_locked answered false for a live lock");
    }
    client.unchanged(&key, lock.lock_id, before).await?;
    Ok(client.released(lock.lock_id).await?)
}

pub(crate) async fn looking_does_not_prolong_the_lock(context: &Context<'_>) -> Outcome {
    let client = context.client().await;
    let key = fresh_key()?;
    // The check needs two looks, and a slow store gets more time for them.
    let mut ttl = SHORT;
    for _ in 0..ATTEMPTS {
        let watch = context.watch();
        let lock = client.take(&key, ttl).await?;
        let taken = context.watch();
        let mut looks = 0;
        loop {
            let seen = [
                client.is_locked(&key).await?,
                client.by_key(&key).await?.is_some(),
                client.by_id(lock.lock_id).await?.is_some(),
            ];
            if !watch.within_tolerance(ttl) {
                break;
            }
            ensure_eq!(seen, [true; 3], "whether a look saw the live lock");
            looks += 1;
            context.pass(SHORT).await;
        }
        taken.outlive(ttl).await;
        client.free(&key).await?;
        if looks > 1 {
            return Ok(());
        }
        ttl *= 3;
    }
    Err(too_slow())
}

pub(crate) async fn the_helpers_agree_with_the_lookup(context: &Context<'_>) -> Outcome {
    let HeldLock { client, key, lock, before: seen, .. } = context.held().await?;
    let backend = client.backend();
    let infos = [get_by_key(backend, &key).await?, get_by_id(backend, lock.lock_id).await?];
    for info in infos {
        let found = info.as_ref().map(|info| (info.key.expose(), info.lock_id));
        ensure_eq!(found, Some((key.expose(), lock.lock_id)), "the key and lock id");
        ensure_eq!(info.map(|info| client.seen(&info)), Some(seen), "what a helper found");
    }
    ensure!(owns(backend, lock.lock_id).await?, "owns answered false for a live lock");
    client.released(lock.lock_id).await?;
    ensure!(!owns(backend, lock.lock_id).await?, "owns answered true for a released lock");
    ensure!(get_by_key(backend, &key).await?.is_none(), "get_by_key found a released lock");
    Ok(())
}
