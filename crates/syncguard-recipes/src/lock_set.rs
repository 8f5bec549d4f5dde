//! Several locks or none.

use std::fmt;
use std::time::Duration;

use futures_util::future::{join_all, select_all};
use syncguard_core::authoring::recipes::{as_recipe, owes_a_pause};
use syncguard_core::contract::Holder;
use syncguard_core::{
    Contention, ErrorCode, IntoKey, Key, LockBackend, LockConfig, LockError, LockGuard, LossReason,
    ReleaseResult, TryAcquired, try_acquire,
};
use tokio::time::Instant;

use crate::wait_limit::WaitLimit;

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
/// The set keeps its locks alive: a configuration without a plan gets [`AutoExtend::new`](syncguard_core::AutoExtend::new).
/// The longest time limit among the configurations is the limit for all of the waiting: for the time in which others hold a
/// lock of the set, and not for requests for locks that are free. A lock whose configuration has no retries is not waited
/// for. Put a cancellation token into each configuration, because each lock may have to be waited for.
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
/// - `AcquisitionTimeout` if a lock was still held when the limit was over. The message says how many locks of the set
///   were held, with the hash of the missing key, and [`LockError::key`] is that key.
/// - The other errors of [`acquire`](syncguard_core::acquire), for each of the locks.
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
    let most = most_at_once(&configs);
    let mut taking = Taking::new(backend, configs.len(), limit.unwrap_or_default());
    let mut at_once = 1;
    while let rest @ [_, ..] = &configs[taking.locks.len()..] {
        let asked = &rest[..at_once.min(rest.len())];
        at_once = match taking.take_free(asked).await {
            Ok(()) => most.min(at_once * 2),
            // Asked for alone, it gets its lock, or its error.
            Err(Gap::Failed(_)) if asked.len() > 1 => 1,
            Err(gap) => {
                // Boxed: otherwise the driver's future would be part of every caller's future.
                let missing = &configs[taking.locks.len()];
                let guard = Box::pin(taking.wait_for(missing, gap)).await?;
                taking.locks.push((missing.0.clone(), guard));
                most.min(2)
            }
        };
    }
    taking.set()
}

/// Takes several locks if all of them are free right now, or none of them: see [`lock_all`]. Waiting settings do not count.
///
/// # Errors
///
/// As [`lock_all`], without `AcquisitionTimeout`.
///
/// # Cancel safety
///
/// Safe: dropping the future leaves no lock behind.
pub async fn try_lock_all<B, I>(backend: &B, locks: I) -> Result<TryAcquired<LockSet<B>>, LockError>
where
    B: LockBackend,
    I: IntoIterator<Item: Into<LockConfig>>,
{
    let configs = in_order(locks.into_iter().map(Into::into).collect())?;
    let mut taking = Taking::new(backend, configs.len(), Duration::ZERO);
    for asked in configs.chunks(most_at_once(&configs)) {
        match taking.take_free(asked).await {
            Ok(()) => {}
            Err(Gap::Busy(contention)) => return Ok(TryAcquired::Busy(contention)),
            Err(Gap::Failed(error)) => return Err(error),
        }
    }
    taking.set().map(TryAcquired::Acquired)
}

/// A lock with a minimum hold that is given back stays locked, so such locks are asked for one by one.
fn most_at_once(configs: &[(Key, LockConfig)]) -> usize {
    let has_min_hold = configs.iter().any(|(_, config)| config.min_hold().is_some());
    if has_min_hold { 1 } else { MOST_AT_ONCE }
}

/// The set while its locks are taken.
struct Taking<'a, B: LockBackend> {
    backend: &'a B,
    size: usize,
    /// How long the caller waits in all while others hold a lock of the set.
    limit: Duration,
    waited: Duration,
    /// How long the store took for its last answers.
    last_answer: Duration,
    locks: Vec<(Key, LockGuard<B>)>,
}

/// Why a lock was not taken at the first try.
enum Gap {
    Busy(Contention),
    Failed(LockError),
}

impl<'a, B: LockBackend> Taking<'a, B> {
    fn new(backend: &'a B, size: usize, limit: Duration) -> Self {
        let (waited, last_answer) = (Duration::ZERO, Duration::ZERO);
        Self { backend, size, limit, waited, last_answer, locks: Vec::with_capacity(size) }
    }

    /// # Errors
    ///
    /// `ServiceUnavailable` if a lock is lost.
    fn set(self) -> Result<LockSet<B>, LockError> {
        let set = LockSet { locks: self.locks };
        if set.is_lost() {
            return Err(LockError::new(
                ErrorCode::ServiceUnavailable,
                "a lock of the set was lost while another one was waited for; none of them is held",
            ));
        }
        Ok(set)
    }

    /// Asks for all of these locks at once, and keeps those before the first that is not free, or whose request has
    /// failed.
    async fn take_free(&mut self, configs: &[(Key, LockConfig)]) -> Result<(), Gap> {
        if let [(key, config)] = configs
            && self.can_wait(config)
            && owes_a_pause(self.backend.client_state(), key)
        {
            return Err(Gap::Busy(Contention::default()));
        }
        let (sent, backend) = (Instant::now(), self.backend);
        let tries = configs.iter().map(|(key, config)| async move {
            (key, Box::pin(try_acquire(backend, config.clone())).await)
        });
        let answers = join_all(tries).await;
        if answers.iter().all(|(_, answer)| answer.is_ok()) {
            self.last_answer = sent.elapsed();
        }
        // The guards behind the first gap are dropped.
        for (key, answer) in answers {
            match answer.map_err(Gap::Failed)? {
                TryAcquired::Acquired(guard) => self.locks.push((key.clone(), guard)),
                TryAcquired::Busy(contention) => return Err(Gap::Busy(contention)),
            }
        }
        Ok(())
    }

    /// The rest of the limit after this time.
    fn limit_after(&self, waited: Duration) -> WaitLimit {
        let left = self.limit.saturating_sub(waited);
        WaitLimit { whole: self.limit, left, last_answer: self.last_answer }
    }

    /// Whether a caller may wait for this lock, and has the time to ask for it again.
    fn can_wait(&self, config: &LockConfig) -> bool {
        config.acquisition().max_retries > 0 && self.limit_after(self.waited).has_time()
    }

    /// Takes a lock that was not taken at the first try.
    async fn wait_for(
        &mut self,
        (key, config): &(Key, LockConfig),
        gap: Gap,
    ) -> Result<LockGuard<B>, LockError> {
        let (limit, counts) = match gap {
            Gap::Busy(_) if self.can_wait(config) => (self.limit_after(self.waited), true),
            Gap::Busy(_) => return Err(self.timeout_error(key, config, None)),
            // An outage is no wait, and after it there is the whole time for one.
            Gap::Failed(_) if !config.ride_out().is_zero() => {
                (self.limit_after(Duration::ZERO), false)
            }
            Gap::Failed(error) => return Err(error),
        };
        let began = Instant::now();
        let still_held = |holder: Option<&Holder>| self.timeout_error(key, config, holder);
        let result = limit.acquire(self.backend, config.clone(), still_held).await;
        if counts {
            self.waited += began.elapsed();
        }
        result
    }

    /// The error for a lock that others still have.
    fn timeout_error(&self, key: &Key, config: &LockConfig, holder: Option<&Holder>) -> LockError {
        let retries = match config.acquisition().max_retries {
            u32::MAX => String::new(),
            retries => format!(" and {retries} retries"),
        };
        let (held, size, limit) = (self.locks.len(), self.size, self.limit);
        let message = format!(
            "the lock {} of the set was still held by another caller, and {held} of the {size} locks of the set were taken; the \
             limit for all of the waiting is {limit:?}{retries} (with_wait_up_to)",
            key.hash_id()
        );
        let error = LockError::new(ErrorCode::AcquisitionTimeout, message).with_key(key);
        holder.cloned().into_iter().fold(error, LockError::with_holder)
    }
}

/// The configurations with their keys, in the order in which every caller takes them.
fn in_order(configs: Vec<LockConfig>) -> Result<Vec<(Key, LockConfig)>, LockError> {
    if configs.is_empty() {
        return Err(LockError::invalid_argument("no keys; at least one is needed"));
    }
    let mut keyed = Vec::with_capacity(configs.len());
    for config in configs {
        config.check()?;
        let config = as_recipe(config, RECIPE);
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
