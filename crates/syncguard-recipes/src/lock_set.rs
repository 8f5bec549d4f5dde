//! Several locks or none.

use std::fmt;
use std::time::Duration;

use futures_util::future::{join_all, select_all};
use syncguard_core::{
    AutoExtend, ErrorCode, IntoKey, Key, LockBackend, LockConfig, LockError, LockGuard, LossReason,
    ReleaseResult, acquire, try_acquire,
};
use tokio::time::Instant;

/// The recipe that observers are told for these locks.
const RECIPE: &str = "lock_all";

/// How many locks are asked for at once at the most. More would fill a pool of connections that others need too.
const MOST_AT_ONCE: usize = 16;

/// Takes several locks, or none of them.
///
/// The locks are waited for one after the other, in the order of their keys' bytes after normalisation, whatever the
/// order of the arguments. So two callers whose sets overlap cannot deadlock. Callers that take several locks one by one
/// cannot either, if they keep to the same order. A caller that already holds a lock when it calls `lock_all` may break
/// that order.
///
/// While no lock has to be waited for, the next ones are asked for at once: 2, then 4, 8, and 16 at a time. If one of
/// them is held, those behind it are given back, and it is waited for. So a caller that waits holds only keys that come
/// before. Locks with a [minimum hold](LockConfig::with_min_hold) are asked for one by one.
///
/// All locks are kept alive: a configuration without a plan gets [`AutoExtend::new`]. The longest time limit among the
/// configurations is the limit for the whole wait. Put a cancellation token into each configuration, because each lock
/// may have to be waited for.
///
/// ```
/// use syncguard_core::{LockBackend, LockError};
/// use syncguard_recipes::lock_all;
///
/// async fn transfer<B: LockBackend>(backend: &B, from: u32, to: u32) -> Result<(), LockError> {
///     let both = lock_all(backend, [format!("account:{from}"), format!("account:{to}")]).await?;
///     // … each write with the fence of its own account: both.fence(…) …
///     both.release().await.map(drop)
/// }
/// ```
///
/// # Errors
///
/// - `InvalidArgument` for no keys, for a key that is there twice, and for a bad key or setting, before
///   anything is sent.
/// - The errors of [`acquire`], for each of the locks.
/// - `ServiceUnavailable` if a lock was lost while the next one was waited for.
///
/// After an error no lock of the set is held: the locks that were taken already are released in the background. A lock
/// with a [minimum hold](LockConfig::with_min_hold) stays locked for that time, as after any release.
///
/// # Cancel safety
///
/// Safe: dropping the future leaves no lock behind.
pub async fn lock_all<B, I>(backend: &B, locks: I) -> Result<LockSet<B>, LockError>
where
    B: LockBackend,
    I: IntoIterator<Item: Into<LockConfig>>,
{
    let configs = in_order(locks.into_iter().map(Into::into).collect())?;
    let limit = configs.iter().map(|(_, config)| config.acquisition().timeout).max();
    let has_min_hold = configs.iter().any(|(_, config)| config.min_hold().is_some());
    let most = if has_min_hold { 1 } else { MOST_AT_ONCE };
    let started = Instant::now();
    let mut locks = Vec::with_capacity(configs.len());
    let (mut rest, mut at_once) = (configs.as_slice(), 1);
    while let [(key, config), behind @ ..] = rest {
        let next = &rest[..at_once.min(rest.len())];
        if next.len() > 1 {
            let free = take_free(backend, next).await;
            at_once = if free.len() == next.len() { most.min(at_once * 2) } else { 1 };
            rest = &rest[free.len()..];
            locks.extend(free);
            continue;
        }
        let left = limit.unwrap_or_default().saturating_sub(started.elapsed());
        let acquisition = config.acquisition().with_timeout(left.max(Duration::from_millis(1)));
        let acquire = acquire(backend, config.clone().with_acquisition(acquisition));
        // Boxed: otherwise the driver's future would be part of every caller's future.
        locks.push((key.clone(), Box::pin(acquire).await?));
        (rest, at_once) = (behind, most.min(2));
    }
    let set = LockSet { locks };
    if set.is_lost() {
        return Err(LockError::new(
            ErrorCode::ServiceUnavailable,
            "a lock of the set was lost while another one was waited for; none of them is held",
        ));
    }
    Ok(set)
}

/// Asks for all of these locks at once, and keeps those before the first that is not free, or whose request has failed:
/// the caller waits for that one, or gets its error.
async fn take_free<B: LockBackend>(
    backend: &B,
    configs: &[(Key, LockConfig)],
) -> Vec<(Key, LockGuard<B>)> {
    let tries = configs.iter().map(|(key, config)| async move {
        let tried = Box::pin(try_acquire(backend, config.clone())).await;
        Some((key.clone(), tried.ok()?.acquired()?))
    });
    // The guards behind the first gap are dropped.
    join_all(tries).await.into_iter().map_while(std::convert::identity).collect()
}

/// The configurations with their keys, in the order in which every caller takes them.
fn in_order(configs: Vec<LockConfig>) -> Result<Vec<(Key, LockConfig)>, LockError> {
    if configs.is_empty() {
        return Err(LockError::invalid_argument("no keys; at least one is needed"));
    }
    let mut keyed = Vec::with_capacity(configs.len());
    for config in configs {
        config.check()?;
        let plan = config.auto_extend().unwrap_or(AutoExtend::new());
        let config = config.with_auto_extend(plan).with_recipe(RECIPE);
        keyed.push((config.key()?.clone(), config));
    }
    keyed.sort_by(|(one, _), (other, _)| one.cmp(other));
    if let Some(twice) = keyed.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        let error = LockError::invalid_argument(
            "a key is there twice, also if it is spelt differently; each may be there once",
        );
        return Err(error.with_key(&twice[0].0));
    }
    Ok(keyed)
}

/// Several locks that are held together. Dropping the set releases them in the background.
#[must_use = "dropping the set releases its locks"]
pub struct LockSet<B: LockBackend> {
    /// Sorted by key.
    locks: Vec<(Key, LockGuard<B>)>,
}

impl<B: LockBackend> LockSet<B> {
    /// The fence of the lock of this key; `None` if the key is not in the set.
    #[must_use]
    pub fn fence(&self, key: impl IntoKey) -> Option<B::Fence> {
        let key = key.into_key().ok()?;
        let index = self.locks.binary_search_by(|(other, _)| other.cmp(&key)).ok()?;
        self.locks.get(index).map(|(_, guard)| guard.fence())
    }

    /// The keys with their fences, sorted by key.
    pub fn fences(&self) -> impl Iterator<Item = (&Key, B::Fence)> {
        self.locks.iter().map(|(key, guard)| (key, guard.fence()))
    }

    /// The guards, sorted by key, to use a single lock.
    pub fn guards(&self) -> impl Iterator<Item = &LockGuard<B>> {
        self.locks.iter().map(|(_, guard)| guard)
    }

    /// The number of locks.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a set is never empty")]
    pub fn len(&self) -> usize {
        self.locks.len()
    }

    /// How long all locks are certainly still held; zero once one is over: see
    /// [`Held::valid_for`](syncguard_core::Held::valid_for).
    #[must_use]
    pub fn valid_for(&self) -> Duration {
        self.guards().map(|guard| guard.valid_for()).min().unwrap_or_default()
    }

    /// Returns true once one of the locks is over.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.guards().any(|guard| guard.is_lost())
    }

    /// Resolves when the first lock is over, with its key and the reason. The work has to stop then; the other locks
    /// stay held until the set is released or dropped. The future borrows nothing.
    ///
    /// # Cancel safety
    ///
    /// Safe: call it again at any time.
    pub fn lost(&self) -> impl Future<Output = (Key, LossReason)> + Send + use<B> {
        let losses: Vec<_> = self
            .locks
            .iter()
            .map(|(key, guard)| {
                let (key, lost) = (key.clone(), guard.lost());
                Box::pin(async move { (key, lost.await) })
            })
            .collect();
        // A set is never empty, so there is always a first loss.
        async move { select_all(losses).await.0 }
    }

    /// Releases all locks at once, and returns for each whether it was held until now.
    ///
    /// # Errors
    ///
    /// The first failure. All releases were sent nevertheless, and failed releases are tried again in the background, as
    /// with [`LockGuard::release`].
    ///
    /// # Cancel safety
    ///
    /// Safe: dropped releases go on in the background.
    pub async fn release(self) -> Result<Vec<(Key, ReleaseResult)>, LockError> {
        let releases = self.locks.into_iter().map(|(key, guard)| async move {
            let result = guard.release().await?;
            Ok((key, result))
        });
        join_all(releases).await.into_iter().collect()
    }
}

impl<B: LockBackend> fmt::Debug for LockSet<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.guards()).finish()
    }
}
