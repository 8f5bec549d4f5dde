//! Acquires with a fence window. These cases do not apply to a backend that does not support windows.

use std::time::Duration;

use syncguard_core::authoring::recipes::FenceWindow;
use syncguard_core::contract::TIME_TOLERANCE;
use syncguard_core::{Fence, Timestamp, Ttl};

use crate::client::Client;
use crate::context::{ATTEMPTS, CLOCK_SLACK, Context, LONG, SHORT, fresh_key, too_slow};
use crate::in_window::{Answer, InWindow, nth, request, window_of};
use crate::outcome::{Checked, Outcome, Stop, ensure, ensure_eq};
use crate::tasks::{all, pause};

pub(crate) async fn a_window_gives_its_first_fence(context: &Context<'_>) -> Outcome {
    let (client, windows) = pair(context).await?;
    for last in [0, 1, 41] {
        let key = fresh_key()?;
        if last > 0 {
            context.set_fence_counter(&key, Fence::new(last)?).await;
        }
        let lock = windows.granted(&key, window_of(1)?).await?;
        ensure_eq!(lock.fence()?, nth(1)?, "the fence after a counter of {last}");
        let seen = client.live(&key, lock.lock_id).await?;
        ensure_eq!(seen.fence, lock.fence, "the fence that the lookup shows");
    }
    Ok(())
}

pub(crate) async fn the_acquires_of_a_window_get_ascending_fences(
    context: &Context<'_>,
) -> Outcome {
    let (client, windows) = pair(context).await?;
    for fences in [1, 2, 3] {
        let (key, window) = (fresh_key()?, window_of(fences)?);
        for number in 1..=fences {
            let lock = windows.granted(&key, window).await?;
            ensure_eq!(lock.fence()?, nth(number)?, "fence {number} of {fences}");
            client.released(lock.lock_id).await?;
        }
        windows.taken(&key, window).await?;
    }
    Ok(())
}

pub(crate) async fn a_used_up_window_is_taken(context: &Context<'_>) -> Outcome {
    let (client, windows) = pair(context).await?;
    let window = window_of(1)?;
    let (released, expired, beyond) = (fresh_key()?, fresh_key()?, fresh_key()?);
    let lock = windows.granted(&released, window).await?;
    client.released(lock.lock_id).await?;
    context.set_fence_counter(&beyond, nth(4)?).await;
    let mut short = request(&expired, window)?;
    short.ttl = Ttl::new(SHORT)?;
    let answer = windows.send(short).await?;
    ensure!(matches!(answer, Answer::Granted(_)), "an acquire in an open window got {answer:?}");
    context.outlive(SHORT).await;
    for (key, counter) in [(&released, 1), (&expired, 1), (&beyond, 4)] {
        for _ in 0..2 {
            let found = windows.taken(key, window).await?;
            ensure_eq!(found, nth(counter)?, "the counter in the refusal");
        }
        client.free(key).await?;
    }
    Ok(())
}

pub(crate) async fn a_used_up_window_is_taken_in_any_case(context: &Context<'_>) -> Outcome {
    let (client, windows) = pair(context).await?;
    let key = fresh_key()?;
    let early = later(store_time(&client).await?, LONG)?;
    for window in [window_of(1)?, window_of(2)?] {
        let lock = windows.granted(&key, window).await?;
        for window in [window, window.with_not_before(early)] {
            ensure_eq!(windows.taken(&key, window).await?, lock.fence()?, "the counter");
        }
        client.released(lock.lock_id).await?;
        windows.taken(&key, window.with_not_before(early)).await?;
    }
    client.take(&key, LONG).await?;
    ensure_eq!(windows.taken(&key, window_of(1)?).await?, nth(3)?, "the counter of a plain lock");
    Ok(())
}

pub(crate) async fn a_held_key_is_locked_below_the_limit(context: &Context<'_>) -> Outcome {
    let (client, windows) = pair(context).await?;
    let key = fresh_key()?;
    let now = store_time(&client).await?;
    let watch = context.watch();
    client.take(&key, LONG).await?;
    for window in [window_of(1)?, window_of(1)?.with_not_before(now)] {
        let longest = LONG + TIME_TOLERANCE;
        let left = windows.held(&key, window).await?.free_within;
        let shortest = longest.saturating_sub(watch.elapsed() + CLOCK_SLACK);
        ensure!(
            left.is_some_and(|left| (shortest..=longest + CLOCK_SLACK).contains(&left)),
            "a lock of {LONG:?} is said to be free after {left:?} at the latest"
        );
    }
    let key = fresh_key()?;
    windows.granted(&key, window_of(2)?).await?;
    windows.held(&key, window_of(2)?).await?;
    Ok(())
}

pub(crate) async fn a_window_is_too_early_before_its_time(context: &Context<'_>) -> Outcome {
    let (client, windows) = pair(context).await?;
    let (key, held) = (fresh_key()?, fresh_key()?);
    client.take(&held, LONG).await?;
    let watch = context.watch();
    let now = store_time(&client).await?;
    for (key, time) in [(&key, LONG), (&key, 3 * LONG), (&held, LONG)] {
        let wait = windows.too_early(key, window_of(1)?.with_not_before(later(now, time)?)).await?;
        let shortest = time.saturating_sub(watch.elapsed() + CLOCK_SLACK);
        ensure!(
            (shortest..=time + CLOCK_SLACK).contains(&wait),
            "a window that opens in {time:?} is said to open in {wait:?}"
        );
    }
    windows.granted(&key, window_of(1)?.with_not_before(now)).await?;
    Ok(())
}

pub(crate) async fn a_window_opens_at_its_time(context: &Context<'_>) -> Outcome {
    const MILLISECOND: Duration = Duration::from_millis(1);
    let (client, windows) = pair(context).await?;
    let time = 5 * SHORT;
    for _ in 0..ATTEMPTS {
        let (key, watch) = (fresh_key()?, context.watch());
        let opens = later(store_time(&client).await?, time)?;
        let window = window_of(1)?.with_not_before(opens);
        match windows.ask(&key, window).await? {
            Answer::TooEarly(wait) if context.has_paused_clock() => {
                ensure_eq!(wait + watch.elapsed(), time, "the time until the window opens");
                context.pass(wait.saturating_sub(MILLISECOND)).await;
                ensure_eq!(windows.too_early(&key, window).await?, MILLISECOND, "the last wait");
                context.pass(MILLISECOND).await;
            }
            Answer::TooEarly(wait) => context.pass(wait + CLOCK_SLACK).await,
            Answer::Granted(_) if watch.elapsed() + CLOCK_SLACK > time => continue,
            other => return Err(other.unexpected("before the window's time").into()),
        }
        let lock = windows.granted(&key, window).await?;
        ensure_eq!(lock.fence()?, nth(1)?, "the fence of a window that has opened");
        return Ok(());
    }
    Err(too_slow())
}

pub(crate) async fn a_plain_acquire_goes_on_from_a_windows_fence(context: &Context<'_>) -> Outcome {
    let (client, windows) = pair(context).await?;
    let key = fresh_key()?;
    let lock = windows.granted(&key, window_of(1)?).await?;
    client.released(lock.lock_id).await?;
    for number in [2, 3] {
        let lock = client.take(&key, LONG).await?;
        ensure_eq!(lock.fence()?, nth(number)?, "the fence of a plain acquire after a window");
        client.released(lock.lock_id).await?;
    }
    let lock = windows.granted(&key, window_of(4)?).await?;
    ensure_eq!(lock.fence()?, nth(4)?, "the fence of a window after a plain acquire");
    Ok(())
}

pub(crate) async fn a_refused_window_uses_up_no_fence(context: &Context<'_>) -> Outcome {
    let (client, windows) = pair(context).await?;
    let key = fresh_key()?;
    let early = window_of(1)?.with_not_before(later(store_time(&client).await?, LONG)?);
    for expected in [1, 2] {
        windows.too_early(&key, early).await?;
        windows.too_early(&key, early).await?;
        let lock = client.take(&key, LONG).await?;
        ensure_eq!(lock.fence()?, Fence::new(expected)?, "the fence after an early acquire");
        windows.held(&key, window_of(1)?).await?;
        windows.too_early(&key, early).await?;
        client.released(lock.lock_id).await?;
    }
    let lock = windows.granted(&key, window_of(1)?).await?;
    windows.taken(&key, window_of(1)?).await?;
    client.released(lock.lock_id).await?;
    windows.taken(&key, window_of(1)?).await?;
    let next = client.take(&key, LONG).await?;
    ensure_eq!(next.fence()?, nth(2)?, "the fence after acquires in a used-up window");
    Ok(())
}

pub(crate) async fn a_refused_window_changes_no_lock(context: &Context<'_>) -> Outcome {
    let (client, windows) = pair(context).await?;
    let (key, once) = (fresh_key()?, window_of(1)?);
    let early = request(&key, once.with_not_before(later(store_time(&client).await?, LONG)?))?;
    let early_id = early.lock_id;
    let answer = windows.send(early).await?;
    ensure!(matches!(answer, Answer::TooEarly(_)), "an early acquire got {answer:?}");
    client.free(&key).await?;
    client.powerless(early_id).await?;

    let lock = windows.granted(&key, once).await?;
    let before = client.live(&key, lock.lock_id).await?;
    let (taken, locked) = (request(&key, once)?, request(&key, window_of(2)?)?);
    let refused = [taken.lock_id, locked.lock_id];
    windows.send(taken.repeat()).await?;
    windows.send(locked).await?;
    for lock_id in refused {
        client.powerless(lock_id).await?;
    }
    client.unchanged(&key, lock.lock_id, before).await?;
    client.released(lock.lock_id).await?;
    let answer = windows.send(taken).await?;
    ensure!(matches!(answer, Answer::Taken(_)), "an acquire in a used-up window got {answer:?}");
    client.free(&key).await?;
    Ok(client.powerless(refused[0]).await?)
}

pub(crate) async fn the_same_request_in_a_window_gets_the_same_lock(
    context: &Context<'_>,
) -> Outcome {
    let (client, windows) = pair(context).await?;
    for fences in [1, 2] {
        let key = fresh_key()?;
        let request = request(&key, window_of(fences)?)?;
        let lock = client.send_granted(request.repeat()).await?;
        for _ in 0..2 {
            let again = client.send_granted(request.repeat()).await?;
            ensure_eq!(again, lock, "the answer to the repeated request");
        }
        client.released(lock.lock_id).await?;
        if fences == 1 {
            let answer = windows.send(request).await?;
            ensure!(matches!(answer, Answer::Taken(_)), "a released request got {answer:?}");
        }
    }
    Ok(())
}

pub(crate) async fn a_dead_holder_is_followed_within_the_window(context: &Context<'_>) -> Outcome {
    let (client, windows) = pair(context).await?;
    let (key, window) = (fresh_key()?, window_of(2)?);
    let mut short = request(&key, window)?;
    short.ttl = Ttl::new(SHORT)?;
    let dead = client.send_granted(short).await?;
    context.outlive(SHORT).await;
    let heir = windows.granted(&key, window).await?;
    ensure_eq!(heir.fence()?, dead.fence()?.next()?, "the fence of the heir");
    client.released(heir.lock_id).await?;
    windows.taken(&key, window).await?;
    Ok(())
}

pub(crate) async fn many_at_once_use_up_a_window_once(context: &Context<'_>) -> Outcome {
    const TASKS: usize = 16;
    let clients = context.clients(4).await;
    let clients = clients.into_iter().map(InWindow::of).collect::<Result<Vec<_>, _>>()?;
    for fences in [1, 1, 1, 2, 3] {
        let (key, window) = (fresh_key()?, window_of(fences)?);
        let contenders = (0..TASKS).map(|index| {
            let (windows, key) = (clients[index % clients.len()].clone(), key.clone());
            async move {
                loop {
                    match windows.ask(&key, window).await? {
                        Answer::Granted(lock) => {
                            windows.0.released(lock.lock_id).await?;
                            return Ok(Some(lock.fence()?));
                        }
                        Answer::Taken(_) => return Ok(None),
                        Answer::Busy(_) => pause(index as u64 % 4 + 1).await,
                        early @ Answer::TooEarly(_) => {
                            return Err(early.unexpected("in an open window"));
                        }
                    }
                }
            }
        });
        let mut granted: Vec<_> = all(contenders).await?.into_iter().flatten().collect();
        granted.sort_unstable();
        let expected = (1..=fences).map(nth).collect::<Result<Vec<_>, _>>()?;
        ensure_eq!(granted, expected, "the fences of a window that {TASKS} asked for at once");
    }
    Ok(())
}

pub(crate) async fn a_release_raises_the_counter_of_its_lock(context: &Context<'_>) -> Outcome {
    let (client, windows) = pair(context).await?;
    let key = fresh_key()?;
    // A lower counter than that of the lock changes nothing.
    for (named, counter) in [(nth(9)?, 9), (nth(4)?, 10)] {
        let lock = client.take(&key, LONG).await?;
        windows.counted(&key, lock.lock_id, named).await?;
        client.free(&key).await?;
        ensure_eq!(windows.taken(&key, window_of(1)?).await?, nth(counter)?, "the counter");
    }
    // A counter keeps each of its digits.
    let (lock, last) = (client.take(&key, LONG).await?, Fence::new(123_456_789_012_345)?);
    windows.counted(&key, lock.lock_id, last).await?;
    ensure_eq!(windows.taken(&key, window_of(1)?).await?, last, "the counter");
    Ok(())
}

pub(crate) async fn a_release_that_frees_nothing_raises_no_counter(
    context: &Context<'_>,
) -> Outcome {
    let (client, windows) = pair(context).await?;
    let (key, other, expired) = (fresh_key()?, fresh_key()?, fresh_key()?);
    let lock = client.take(&key, LONG).await?;
    windows.release(&other, lock.lock_id, nth(9)?).await?;
    client.release(lock.lock_id).await?;
    let short = client.take(&expired, SHORT).await?;
    context.outlive(SHORT).await;
    for (key, lock_id) in [(&key, lock.lock_id), (&expired, short.lock_id)] {
        let answer = windows.release(key, lock_id, nth(9)?).await?;
        ensure!(
            !answer.is_released(),
            "the release of a lock that is not held answered {answer:?}"
        );
    }
    for key in [&key, &other, &expired] {
        let lock = windows.granted(key, window_of(1)?).await?;
        ensure_eq!(lock.fence()?, nth(1)?, "the fence after a release that freed nothing");
    }
    Ok(())
}

pub(crate) async fn windows_keep_every_digit(context: &Context<'_>) -> Outcome {
    let (client, windows) = pair(context).await?;
    for number in [123_456_789_012_343, Fence::MAX.get()] {
        let (key, fence) = (fresh_key()?, Fence::new(number)?);
        let window = FenceWindow::new(fence, fence)?;
        context.set_fence_counter(&key, Fence::new(number - 1)?).await;
        let lock = windows.granted(&key, window).await?;
        ensure_eq!(lock.fence()?, fence, "the granted fence");
        client.released(lock.lock_id).await?;
        ensure_eq!(windows.taken(&key, window).await?, fence, "the counter in the refusal");
    }
    // A counter above all granted fences, as after a move from another store.
    let (key, last) = (fresh_key()?, Fence::new(999_999_999_999_999)?);
    context.set_fence_counter(&key, last).await;
    let window = FenceWindow::new(Fence::MAX, Fence::MAX)?;
    ensure_eq!(windows.taken(&key, window).await?, last, "the counter in the refusal");
    Ok(())
}

/// Two connections to a store that keeps windows.
async fn pair(context: &Context<'_>) -> Result<(Client, InWindow), Stop> {
    let (client, other) = context.pair().await;
    Ok((client, InWindow::of(other)?))
}

/// The store's time, as the expiry of a lock shows it.
async fn store_time(client: &Client) -> Checked<Timestamp> {
    let lock = client.take(&fresh_key()?, LONG).await?;
    let long = u64::try_from(LONG.as_millis()).unwrap_or(u64::MAX);
    Ok(Timestamp::from_millis(lock.expires_at.as_millis().saturating_sub(long))?)
}

fn later(time: Timestamp, by: Duration) -> Checked<Timestamp> {
    Ok(time.plus(Ttl::new(by)?)?)
}
