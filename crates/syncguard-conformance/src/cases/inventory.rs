//! The listing of all locks and fence counters. These cases do not apply to a backend without an inventory.

use std::collections::BTreeMap;

use syncguard_core::inventory::ListRequest;
use syncguard_core::{Fence, Key};

use crate::client::{Client, Granted};
use crate::context::{ATTEMPTS, Context, LONG, SHORT, fresh_key, fresh_text, too_slow};
use crate::outcome::{Checked, Outcome, Stop, Unexpected, ensure, ensure_eq};
use crate::over_all::{OverAll, texts};
use crate::tasks::pause;

fn keys(prefix: &str, count: usize) -> Checked<Vec<Key>> {
    let key = |number| Ok(Key::new(format!("{prefix}{number:03}"))?);
    (0..count).map(key).collect()
}

/// Holds this many keys with a prefix of their own.
async fn take_keys(client: &Client, count: usize) -> Checked<(String, Vec<Key>)> {
    let prefix = fresh_text()?;
    let keys = keys(&prefix, count)?;
    for key in &keys {
        client.take(key, LONG).await?;
    }
    Ok((prefix, keys))
}

fn sorted(mut keys: Vec<String>) -> Vec<String> {
    keys.sort_unstable();
    keys
}

pub(crate) async fn a_listing_shows_every_live_lock(context: &Context<'_>) -> Outcome {
    let (client, over_all) = OverAll::of(context).await?;
    let prefix = fresh_text()?;
    let mut expected = BTreeMap::new();
    for key in keys(&prefix, 3)? {
        let lock = client.take(&key, LONG).await?;
        let seen = client.live(&key, lock.lock_id).await?;
        expected.insert(key.expose().to_owned(), (lock.lock_id, seen));
    }
    let listed = over_all.locks(ListRequest::new().with_prefix(&prefix)).await?;
    let listed = listed.into_iter().map(|info| {
        let seen = client.seen(&info);
        (info.key.expose().to_owned(), (info.lock_id, seen))
    });
    ensure_eq!(listed.collect::<BTreeMap<_, _>>(), expected, "the locks by their keys");
    // Without a prefix the listing has all locks, also those of other users.
    let first = over_all.raw().list_locks(ListRequest::new().with_page_size(1)).await?;
    ensure!(first.entries.len() <= 1, "a page of one entry has {}", first.entries.len());
    let Some(next) = first.next else {
        return Err(Stop::failed("a listing of all locks ended before three of them"));
    };
    over_all.raw().list_locks(next).await?;
    Ok(())
}

pub(crate) async fn a_listing_shows_no_lock_that_is_over(context: &Context<'_>) -> Outcome {
    let (client, over_all) = OverAll::of(context).await?;
    let prefix = fresh_text()?;
    let keys = keys(&prefix, 3)?;
    let released = client.take(&keys[0], LONG).await?;
    client.released(released.lock_id).await?;
    client.take(&keys[1], LONG).await?;
    client.take(&keys[2], SHORT).await?;
    let mut listed = Vec::new();
    // A client that knows the store's time within bounds shows a lock a little longer.
    for _ in 0..ATTEMPTS {
        context.outlive(SHORT).await;
        listed = over_all.keys(&prefix).await?;
        if listed == [keys[1].expose()] {
            return Ok(());
        }
    }
    ensure_eq!(listed, [keys[1].expose()], "the keys of the live locks");
    Ok(())
}

pub(crate) async fn a_listing_shows_a_lock_within_the_tolerance(context: &Context<'_>) -> Outcome {
    let (client, over_all) = OverAll::of(context).await?;
    for _ in 0..ATTEMPTS {
        let (key, _, watch) = context.in_tolerance(&client, SHORT).await?;
        let listed = over_all.keys(key.expose()).await?;
        if watch.within_tolerance(SHORT) {
            ensure_eq!(listed, [key.expose()], "the keys of the live locks");
            return Ok(());
        }
    }
    Err(too_slow())
}

pub(crate) async fn a_listing_goes_by_the_beginning_of_keys(context: &Context<'_>) -> Outcome {
    let (client, over_all) = OverAll::of(context).await?;
    let fresh = fresh_text()?;
    // Pattern characters of some stores are plain text here.
    for sign in ["*", "?", "%", "_", "\\", "[a", "[^x]", "'", "\"", "/", "\u{10ffff}"] {
        let prefix = format!("{fresh}{sign}");
        let inside =
            sorted(vec![prefix.clone(), format!("{prefix}a"), format!("{prefix}\u{1f980}")]);
        for key in &inside {
            client.take(&Key::new(key)?, LONG).await?;
        }
        let decoys = [format!("{fresh}-{sign}"), format!("x{prefix}"), format!("{fresh}a{sign}b")];
        for key in decoys {
            client.acquire(&Key::new(&key)?, LONG).await?;
        }
        let listed = sorted(over_all.keys(&prefix).await?);
        ensure_eq!(listed, inside, "the keys that begin so");
    }
    ensure_eq!(over_all.keys(&format!("{fresh}nobody")).await?.len(), 0, "keys of nobody");
    Ok(())
}

pub(crate) async fn a_listing_shows_keys_as_they_are(context: &Context<'_>) -> Outcome {
    let (client, over_all) = OverAll::of(context).await?;
    let fresh = fresh_text()?;
    let longest = format!("{fresh}{}", "x".repeat(Key::MAX_LENGTH_BYTES - fresh.len()));
    let mut expected = vec![
        format!("{fresh}/a b:c\u{1f980}"),
        format!("{fresh}:"),
        longest,
        format!("{fresh}\n'\""),
    ];
    for key in &expected {
        client.take(&Key::new(key)?, LONG).await?;
    }
    // The same key in another Unicode form.
    client.take(&Key::new(format!("{fresh}cafe\u{301}"))?, LONG).await?;
    expected.push(format!("{fresh}caf\u{e9}"));
    let expected = sorted(expected);
    ensure_eq!(sorted(over_all.keys(&fresh).await?), expected, "the keys of the locks");
    if client.fences() {
        let counters = over_all.counters(ListRequest::new().with_prefix(&fresh)).await?;
        let counters = counters.into_iter().map(|(key, _)| key).collect();
        ensure_eq!(sorted(counters), expected, "the keys of the counters");
    }
    Ok(())
}

pub(crate) async fn pages_show_each_lock_once(context: &Context<'_>) -> Outcome {
    const LOCKS: usize = 23;
    let (client, over_all) = OverAll::of(context).await?;
    let (prefix, expected) = take_keys(&client, LOCKS).await?;
    let expected: Vec<_> = expected.iter().map(|key| key.expose().to_owned()).collect();
    for size in [1, 7, LOCKS - 1, LOCKS, LOCKS + 1] {
        let request = ListRequest::new().with_prefix(&prefix).with_page_size(size);
        let listed = sorted(texts(over_all.locks(request).await?));
        ensure_eq!(listed, expected, "the keys on pages of {size}");
    }
    Ok(())
}

pub(crate) async fn what_comes_and_goes_hides_no_lock(context: &Context<'_>) -> Outcome {
    const PAIRS: usize = 16;
    let (client, other) = context.pair().await;
    let over_all = OverAll::of_client(&client)?;
    let prefix = fresh_text()?;
    let keys = keys(&prefix, 2 * PAIRS)?;
    let (mut stay, mut go) = (Vec::new(), Vec::new());
    for pair in keys.chunks_exact(2) {
        client.take(&pair[0], LONG).await?;
        stay.push(pair[0].expose().to_owned());
        go.push((pair[1].clone(), other.take(&pair[1], LONG).await?));
    }
    let request = ListRequest::new().with_prefix(&prefix).with_page_size(3);
    let (mut pages, mut listed, mut number) = (over_all.pages(request), Vec::new(), 0);
    while let Some(page) = pages.next().await? {
        listed.extend(page);
        // Locks near to the cursor and at the other end are released, and some are taken again.
        for which in [number % PAIRS, (PAIRS - 1).saturating_sub(number)] {
            let (key, lock) = &mut go[which];
            other.release(lock.lock_id).await?;
            if number % 2 == 0
                && let Some(again) = other.acquire(key, LONG).await?
            {
                *lock = again;
            }
        }
        number += 1;
    }
    let listed = sorted(texts(listed));
    ensure!(listed.windows(2).all(|pair| pair[0] != pair[1]), "a key is listed twice: {listed:?}");
    let lost: Vec<_> = stay.iter().filter(|key| !listed.contains(key)).collect();
    ensure!(lost.is_empty(), "{} locks that stayed are not listed", lost.len());
    Ok(())
}

pub(crate) async fn the_next_page_begins_where_the_page_ended(context: &Context<'_>) -> Outcome {
    let (client, other) = context.pair().await;
    let (over_all, others) = (OverAll::of_client(&client)?, OverAll::of_client(&other)?);
    let (prefix, keys) = take_keys(&client, 5).await?;
    let request = ListRequest::new().with_prefix(&prefix).with_page_size(2);
    let first = over_all.raw().list_locks(request).await?;
    let Some(next) = first.next else {
        return Err(Stop::failed("a page of 2 of 5 locks is said to be the last one"));
    };
    let rest = next.with_page_size(5);
    let behind = texts(over_all.locks(rest.clone()).await?);
    let once = sorted([texts(first.entries), behind.clone()].concat());
    let expected: Vec<_> = keys.iter().map(|key| key.expose().to_owned()).collect();
    ensure_eq!(once, expected, "the keys of both pages");
    // A cursor can be used again, and with any connection.
    ensure_eq!(texts(over_all.locks(rest.clone()).await?), behind, "the same page again");
    ensure_eq!(texts(others.locks(rest).await?), behind, "the same page of another client");
    Ok(())
}

pub(crate) async fn a_corrupt_record_hides_no_other(context: &Context<'_>) -> Outcome {
    let (client, over_all) = OverAll::of(context).await?;
    let (prefix, keys) = take_keys(&client, 3).await?;
    context.corrupt(&keys[1]).await?;
    let request = ListRequest::new().with_prefix(&prefix);
    let page = over_all.raw().list_locks(request.clone()).await?;
    ensure_eq!(page.corrupt.len(), 1, "how many records are said to make no sense");
    let live = [keys[0].expose(), keys[2].expose()];
    ensure_eq!(sorted(texts(page.entries)), live, "the keys of the other locks");
    let again = over_all.raw().list_locks(request).await?;
    ensure_eq!(again.corrupt, page.corrupt, "which records are said to make no sense");
    Ok(())
}

pub(crate) async fn looking_over_all_changes_nothing(context: &Context<'_>) -> Outcome {
    let (client, over_all) = OverAll::of(context).await?;
    let key = fresh_key()?;
    let lock = client.take(&key, LONG).await?;
    let before = client.live(&key, lock.lock_id).await?;
    let request = ListRequest::new().with_prefix(key.expose());
    for _ in 0..10 {
        over_all.locks(request.clone()).await?;
        if client.fences() {
            over_all.counters(request.clone()).await?;
            over_all.counter(&key).await?;
        }
    }
    client.unchanged(&key, lock.lock_id, before).await?;
    client.released(lock.lock_id).await?;
    let next = client.take(&key, LONG).await?;
    if let (Some(fence), Some(next)) = (lock.fence, next.fence) {
        ensure_eq!(next, fence.next()?, "the next fence");
    }
    Ok(())
}

pub(crate) async fn the_counter_of_a_key_is_its_last_fence(context: &Context<'_>) -> Outcome {
    let (client, over_all) = OverAll::with_counters(context).await?;
    let key = fresh_key()?;
    ensure_eq!(over_all.counter(&key).await?, None, "the counter of a key that was never locked");
    for _ in 0..3 {
        let lock = client.take(&key, LONG).await?;
        ensure_eq!(over_all.counter(&key).await?, lock.fence, "the counter of a locked key");
        client.released(lock.lock_id).await?;
        ensure_eq!(over_all.counter(&key).await?, lock.fence, "the counter of a free key");
    }
    ensure_eq!(over_all.counter(&fresh_key()?).await?, None, "the counter of another key");
    Ok(())
}

pub(crate) async fn counters_of_free_keys_are_listed(context: &Context<'_>) -> Outcome {
    const KEYS: usize = 9;
    let (client, over_all) = OverAll::with_counters(context).await?;
    let prefix = fresh_text()?;
    let mut expected = Vec::new();
    for (number, key) in keys(&prefix, KEYS)?.into_iter().enumerate() {
        context.set_fence_counter(&key, Fence::new(100 + number as u64)?).await;
        let lock = client.take(&key, LONG).await?;
        if number % 3 > 0 {
            client.released(lock.lock_id).await?;
        }
        expected.push((key.expose().to_owned(), lock.fence()?));
    }
    for size in [2, KEYS, KEYS + 1] {
        let request = ListRequest::new().with_prefix(&prefix).with_page_size(size);
        let mut listed = over_all.counters(request).await?;
        listed.sort_unstable();
        ensure_eq!(listed, expected, "the counters on pages of {size}");
    }
    Ok(())
}

pub(crate) async fn a_raised_counter_gives_higher_fences(context: &Context<'_>) -> Outcome {
    let (client, over_all) = OverAll::with_counters(context).await?;
    let (key, fresh) = (fresh_key()?, fresh_key()?);
    let lock = client.take(&key, LONG).await?;
    let before = client.live(&key, lock.lock_id).await?;
    // A large fence, so that all digits show.
    let raised = Fence::new(89_999_999_999_998)?;
    for key in [&key, &fresh] {
        ensure_eq!(over_all.raise(key, raised).await?, raised, "the counter as the raise says it");
        ensure_eq!(over_all.counter(key).await?, Some(raised), "the counter");
    }
    client.unchanged(&key, lock.lock_id, before).await?;
    client.released(lock.lock_id).await?;
    for key in [&key, &fresh] {
        let next = client.take(key, LONG).await?;
        ensure_eq!(next.fence()?, raised.next()?, "the next fence");
    }
    ensure_eq!(over_all.counter(&fresh_key()?).await?, None, "the counter of another key");
    Ok(())
}

pub(crate) async fn a_raise_never_lowers_a_counter(context: &Context<'_>) -> Outcome {
    let (client, over_all) = OverAll::with_counters(context).await?;
    let key = fresh_key()?;
    let high = Fence::new(1_000_000)?;
    over_all.raise(&key, high).await?;
    for low in [1, 9, 999_999, 1_000_000] {
        let answer = over_all.raise(&key, Fence::new(low)?).await?;
        ensure_eq!(answer, high, "the counter as a raise to {low} says it");
    }
    ensure_eq!(over_all.counter(&key).await?, Some(high), "the counter");
    ensure_eq!(client.take(&key, LONG).await?.fence()?, high.next()?, "the next fence");
    Ok(())
}

pub(crate) async fn a_counter_raised_to_the_end_grants_nothing(context: &Context<'_>) -> Outcome {
    let (client, over_all) = OverAll::with_counters(context).await?;
    let key = fresh_key()?;
    over_all.raise(&key, Fence::MAX).await?;
    match client.acquire(&key, LONG).await {
        Err(_) => client.free(&key).await?,
        Ok(_) => return Err(Stop::failed("an acquire was granted a fence above the last one")),
    }
    ensure_eq!(over_all.counter(&key).await?, Some(Fence::MAX), "the counter");
    Ok(())
}

pub(crate) async fn raises_and_acquires_at_once_keep_fences_growing(
    context: &Context<'_>,
) -> Outcome {
    const ROUNDS: u64 = 25;
    let (client, over_all) = OverAll::with_counters(context).await?;
    let key = fresh_key()?;
    let acquires = async {
        let mut fences = Vec::new();
        for _ in 0..ROUNDS {
            // The earlier answer binds all later acquires.
            let floor = over_all.counter(&key).await?.unwrap_or(Fence::ZERO);
            let lock = free_beside_raises(&client, &key).await?;
            fences.push((floor, lock.fence()?));
            client.released(lock.lock_id).await?;
        }
        Ok::<_, Stop>(fences)
    };
    // A raise to a value that is not higher would show if it wrote back the value that it had read.
    let raises = async |step: u64| {
        for round in 1..=ROUNDS {
            for _ in 0..(round * step) % 5 {
                tokio::task::yield_now().await;
            }
            let at_least = Fence::new(1 + (step - 1) * round)?;
            let raised = over_all.raise(&key, at_least).await?;
            ensure!(raised >= at_least, "a raise to {at_least} answered {raised}");
            let seen = over_all.counter(&key).await?;
            ensure!(seen >= Some(raised), "after a raise to {raised} the counter is {seen:?}");
        }
        Ok::<_, Stop>(())
    };
    let (fences, idle, slow, fast) = tokio::join!(acquires, raises(1), raises(2), raises(4));
    for raised in [idle, slow, fast] {
        raised?;
    }
    let fences = fences?;
    for (floor, fence) in &fences {
        ensure!(fence > floor, "the counter was {floor} before an acquire that got {fence}");
    }
    let grow = fences.windows(2).all(|pair| pair[0].1 < pair[1].1);
    ensure!(grow, "fences do not grow: {fences:?}");
    let last = over_all.counter(&key).await?;
    ensure!(last >= fences.last().map(|(_, fence)| *fence), "the counter ends at {last:?}");
    Ok(())
}

/// To some stores a raise looks like an acquire and a release by another client.
async fn free_beside_raises(client: &Client, key: &Key) -> Checked<Granted> {
    const TRIES: usize = 200;
    for _ in 0..TRIES {
        if let Some(lock) = client.acquire(key, LONG).await? {
            return Ok(lock);
        }
        pause(1).await;
    }
    Err(Unexpected::new(format!("a free key was refused {TRIES} times beside raises")))
}
