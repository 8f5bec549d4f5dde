//! Lookups, which change nothing.

use std::time::Duration;

use syncguard_core::authoring::hash_key;
use syncguard_core::contract::{AcquireRequest, FenceToken, Holder, LookupRequest};
use syncguard_core::diagnostics::{get_by_id, get_by_id_raw, get_by_key, get_by_key_raw, owns};
use syncguard_core::inventory::ListRequest;
use syncguard_core::{Key, LockBackend, LockId};

use crate::client::{Client, Seen};
use crate::context::{ATTEMPTS, Context, LONG, SHORT, fresh_key, fresh_text, too_slow};
use crate::outcome::{Outcome, Stop, Unexpected, ensure, ensure_eq};

pub(crate) async fn a_lookup_by_key_shows_the_lock<F: FenceToken>(
    context: &Context<'_, F>,
) -> Outcome {
    let (client, other) = context.pair().await;
    let key = fresh_key()?;
    let lock = client.take(&key, LONG).await?;
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
    Ok(())
}

pub(crate) async fn a_lookup_by_lock_id_shows_the_same_lock<F: FenceToken>(
    context: &Context<'_, F>,
) -> Outcome {
    let (client, other) = context.pair().await;
    let (key, decoy) = (fresh_key()?, fresh_key()?);
    let lock = client.take(&key, LONG).await?;
    client.take(&decoy, LONG).await?;
    let by_key = other.by_key(&key).await?;
    ensure!(by_key.is_some(), "lookup by key found nothing of a live lock");
    ensure_eq!(other.by_id(lock.lock_id).await?, by_key, "the lock by its id");
    Ok(())
}

pub(crate) async fn a_lookup_of_nothing_is_none<F: FenceToken>(
    context: &Context<'_, F>,
) -> Outcome {
    let client = context.client().await;
    client.take(&fresh_key()?, LONG).await?;
    ensure_eq!(client.by_key(&fresh_key()?).await?, None, "the lookup of a fresh key");
    ensure_eq!(client.by_id(LockId::generate()?).await?, None, "the lookup of a fresh id");
    Ok(())
}

pub(crate) async fn a_lookup_after_release_is_none<F: FenceToken>(
    context: &Context<'_, F>,
) -> Outcome {
    let (client, other) = context.pair().await;
    let key = fresh_key()?;
    let lock = client.take(&key, LONG).await?;
    client.released(lock.lock_id).await?;
    for client in [&client, &other] {
        ensure_eq!(client.by_key(&key).await?, None, "the lookup by key");
        ensure_eq!(client.by_id(lock.lock_id).await?, None, "the lookup by lock id");
    }
    Ok(())
}

pub(crate) async fn a_lookup_of_an_expired_lock_is_none<F: FenceToken>(
    context: &Context<'_, F>,
) -> Outcome {
    let client = context.client().await;
    let key = fresh_key()?;
    let lock = client.take(&key, SHORT).await?;
    context.outlive(SHORT).await;
    ensure_eq!(client.by_key(&key).await?, None, "the lookup by key");
    ensure_eq!(client.by_id(lock.lock_id).await?, None, "the lookup by lock id");
    Ok(())
}

pub(crate) async fn a_lookup_shows_the_holder_of_the_lock_or_none<F: FenceToken>(
    context: &Context<'_, F>,
) -> Outcome {
    let (client, other) = context.pair().await;
    let key = fresh_key()?;
    let first = Holder::new("first \"1\" \\ \u{e9}")?.with_note("run 1, its \u{1f980}")?;
    let taken = client.send_granted(request(&key, LONG)?.with_holder(first.clone())).await?;
    let seen = holders(&other, &key, taken.lock_id).await?;
    let keeps = seen[0].is_some();
    let shown = |holder: &Holder| keeps.then(|| holder.clone());
    ensure!(
        seen.iter().all(|seen| *seen == shown(&first)),
        "the holder of the first lock: {seen:?}"
    );
    client.extended(taken.lock_id, LONG).await?;
    let seen = holders(&other, &key, taken.lock_id).await?;
    ensure!(seen.iter().all(|seen| *seen == shown(&first)), "after an extend: {seen:?}");
    client.released(taken.lock_id).await?;

    // The second lock has no note, the third one no holder at all, and the fourth follows an expiry.
    let second = Holder::new("second")?;
    let taken = client.send_granted(request(&key, LONG)?.with_holder(second.clone())).await?;
    let seen = holders(&other, &key, taken.lock_id).await?;
    ensure!(seen.iter().all(|seen| *seen == shown(&second)), "of the second lock: {seen:?}");
    client.released(taken.lock_id).await?;
    let unnamed = request(&key, SHORT)?.with_holder(Holder::unnamed());
    let taken = client.send_granted(unnamed).await?;
    let seen = holders(&other, &key, taken.lock_id).await?;
    ensure!(seen.iter().all(Option::is_none), "of a lock without a holder: {seen:?}");
    context.outlive(SHORT).await;
    let taken = client.send_granted(request(&key, LONG)?.with_holder(first.clone())).await?;
    let seen = holders(&other, &key, taken.lock_id).await?;
    ensure!(seen.iter().all(|seen| *seen == shown(&first)), "of the fourth lock: {seen:?}");
    Ok(())
}

fn request(key: &Key, ttl: Duration) -> Result<AcquireRequest, Stop> {
    Ok(AcquireRequest::new(key, ttl)?)
}

/// The holder by key, by lock id, and in a listing if the backend has one.
async fn holders<F: FenceToken>(
    client: &Client<F>,
    key: &Key,
    lock_id: LockId,
) -> Result<Vec<Option<Holder>>, Stop> {
    let mut found = Vec::new();
    for by in [LookupRequest::by_key(key)?, LookupRequest::by_lock_id(lock_id)] {
        let Some(info) = client.find(by).await? else {
            return Err(Stop::failed("lookup found nothing of a live lock"));
        };
        found.push(info.holder);
    }
    if let Some(inventory) = client.backend().inventory() {
        let request = ListRequest::new().with_prefix(key.expose());
        let page = inventory.list_locks(request).await;
        let page = page.map_err(|error| Unexpected::error("list_locks", &error))?;
        found.extend(page.entries.into_iter().map(|info| info.holder));
    }
    Ok(found)
}

pub(crate) async fn a_lookup_shows_hashes<F: FenceToken>(context: &Context<'_, F>) -> Outcome {
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

pub(crate) async fn a_lookup_exposes_the_users_key_and_lock_id<F: FenceToken>(
    context: &Context<'_, F>,
) -> Outcome {
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
            let raw = info.expose();
            ensure_eq!(raw.key.expose(), text, "the exposed key");
            ensure_eq!(raw.lock_id.expose(), lock.lock_id.expose(), "the exposed lock id");
        }
    }
    Ok(())
}

pub(crate) async fn an_extend_keeps_the_time_of_acquisition<F: FenceToken>(
    context: &Context<'_, F>,
) -> Outcome {
    let client = context.client().await;
    let key = fresh_key()?;
    let lock = client.take(&key, LONG).await?;
    let before = client.live(&key, lock.lock_id).await?;
    context.pass(Duration::from_millis(20)).await;
    client.extended(lock.lock_id, LONG).await?;
    let after = client.live(&key, lock.lock_id).await?;
    ensure_eq!(after.acquired_at, before.acquired_at, "the time of acquisition");
    Ok(())
}

pub(crate) async fn looking_changes_nothing<F: FenceToken>(context: &Context<'_, F>) -> Outcome {
    let (client, other) = context.pair().await;
    let key = fresh_key()?;
    let lock = client.take(&key, LONG).await?;
    let before = client.live(&key, lock.lock_id).await?;
    for _ in 0..25 {
        context.pass(Duration::from_millis(1)).await;
        ensure_eq!(other.by_key(&key).await?, Some(before), "the lock by its key");
        ensure_eq!(other.by_id(lock.lock_id).await?, Some(before), "the lock by its id");
    }
    client.released(lock.lock_id).await?;
    Ok(())
}

pub(crate) async fn asking_changes_nothing<F: FenceToken>(context: &Context<'_, F>) -> Outcome {
    let (client, other) = context.pair().await;
    let key = fresh_key()?;
    let lock = client.take(&key, LONG).await?;
    let before = client.live(&key, lock.lock_id).await?;
    for _ in 0..50 {
        context.pass(Duration::from_millis(1)).await;
        ensure!(other.is_locked(&key).await?, "is_locked answered false for a live lock");
    }
    client.unchanged(&key, lock.lock_id, before).await?;
    client.released(lock.lock_id).await?;
    Ok(())
}

pub(crate) async fn looking_does_not_prolong_the_lock<F: FenceToken>(
    context: &Context<'_, F>,
) -> Outcome {
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

pub(crate) async fn the_helpers_agree_with_the_lookup<F: FenceToken>(
    context: &Context<'_, F>,
) -> Outcome {
    let client = context.client().await;
    let backend = client.backend();
    let key = fresh_key()?;
    let lock = client.take(&key, LONG).await?;
    let seen = client.live(&key, lock.lock_id).await?;
    let infos = [get_by_key(backend, &key).await?, get_by_id(backend, lock.lock_id).await?];
    let raw = [get_by_key_raw(backend, &key).await?, get_by_id_raw(backend, lock.lock_id).await?];
    for raw in &raw {
        let found = raw.as_ref().map(|raw| (raw.key.expose(), raw.lock_id));
        ensure_eq!(found, Some((key.expose(), lock.lock_id)), "the raw key and lock id");
    }
    for info in infos.into_iter().chain(raw.map(|raw| raw.map(|raw| raw.info))) {
        let found = info.map(|info| (info.expires_at, info.acquired_at, info.fence.fence()));
        let expected = Some((seen.expires_at, seen.acquired_at, seen.fence));
        ensure_eq!(found, expected, "what a helper found");
    }
    ensure!(owns(backend, lock.lock_id).await?, "owns answered false for a live lock");
    client.released(lock.lock_id).await?;
    ensure!(!owns(backend, lock.lock_id).await?, "owns answered true for a released lock");
    ensure!(get_by_key(backend, &key).await?.is_none(), "get_by_key found a released lock");
    Ok(())
}
