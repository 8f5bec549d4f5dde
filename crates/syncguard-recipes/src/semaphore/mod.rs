//! At most N permits at a time.

mod call;
mod permit;
mod release_hook;
mod slot_watcher;
mod slots;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use syncguard_core::{
    AcquisitionOptions, AutoExtend, IntoKey, IntoTtl, LockBackend, LockConfig, LockError,
};

use self::call::Call;
pub use self::permit::Permit;
use self::slots::Slots;

/// At most N permits at a time, over all processes. Each permit is one of N slots, and each slot is a lock of its
/// own with its own fence.
///
/// ```
/// use syncguard_core::{LockBackend, LockError};
/// use syncguard_recipes::Semaphore;
///
/// # async fn download() {}
/// async fn one<B: LockBackend>(downloads: &Semaphore<B>) -> Result<(), LockError> {
///     let permit = downloads.acquire().await?;
///     download().await;
///     permit.release().await.map(drop)
/// }
///
/// fn configure<B: LockBackend>(backend: B) -> Result<Semaphore<B>, LockError> {
///     Semaphore::new(backend, "downloads", 10)
/// }
/// ```
///
/// Clones share their knowledge of the slots and the queue of this process's waiters. Make one semaphore for each key
/// and process, and clone it. Callers of one process get their permits in the order in which they came. Between processes
/// no order is promised: a process that hands its slots on to itself lets other processes go first now and then.
///
/// # What is stored
///
/// Slot `i` is the lock of the key that is made of the semaphore's key in NFC, the bytes `:permit:`, and `i` in
/// decimal, from 0, without leading zeros. So a semaphore's key has at most 500 bytes. A caller that locks such a key
/// directly takes the slot away.
///
/// # Changing the number
///
/// Processes with different numbers, as during a roll-out, are safe: each process uses the slots below its own number,
/// and together they never have more permits than the largest number. A permit whose slot is above the new number
/// stays valid until it is given back. [`set_permits`](Self::set_permits) changes the number while the process runs.
#[derive(Clone)]
pub struct Semaphore<B> {
    backend: B,
    slots: Arc<Slots>,
    /// For the lock of each slot, without the slot's key.
    config: LockConfig,
}

impl<B: LockBackend> Semaphore<B> {
    /// The semaphore that all users of this key share, with 1 to 1024 permits.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a bad key, a key of more than 500 bytes, and a bad number.
    pub fn new(backend: B, key: impl IntoKey, permits: u32) -> Result<Self, LockError> {
        let key = key.into_key()?;
        let config = LockConfig::new(key.clone())
            .with_auto_extend(AutoExtend::new())
            .with_recipe("semaphore");
        let slots = Arc::new(Slots::new(backend.client_state(), key, permits)?);
        Ok(Self { backend, slots, config })
    }

    syncguard_core::setters! {
        /// How long a permit stays taken after a crash; the tolerance comes on top. Permits are renewed after a third of
        /// it. Default: 30 s. A bad TTL is reported when a permit is asked for.
        with_ttl(ttl: impl IntoTtl) in config;
        /// How long [`acquire`](Self::acquire) waits at most while all permits are held, 1 ms to 100 years. Default: 5 s.
        with_wait_up_to(timeout: Duration) in config;
        /// How long [`acquire`](Self::acquire) waits, and the pauses between polls without signals. Default: 5 s, and pauses
        /// of 100 to 500 ms. Retries are not counted, but with 0 retries `acquire` does not wait.
        with_acquisition(acquisition: AcquisitionOptions) in config;
        /// How permits are kept alive, and the longest hold. Default: no limit on the hold.
        with_auto_extend(plan: AutoExtend) in config;
        /// Keeps a permit for at least this long after it was granted, 1 ms to 100 years, also if it is given back earlier:
        /// see [`LockConfig::with_min_hold`]. Default: off.
        with_min_hold(min_hold: Duration) in config;
    }

    /// The number of permits in this process's view.
    #[must_use]
    pub fn permits(&self) -> u32 {
        self.slots.permits()
    }

    /// Changes the number of permits for all clones in this process. No permit is lost by that: see
    /// [Changing the number](Self#changing-the-number).
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a bad number; 1 to 1024 are allowed.
    pub fn set_permits(&self, permits: u32) -> Result<(), LockError> {
        self.slots.set_permits(permits)
    }

    /// Takes a permit if there is one right now; `None` if there is none.
    ///
    /// The call tries one slot after the other, the likeliest first: one round trip if the slot that this process gave back
    /// last is free, at most as many as there are slots. It does not overtake: while other callers of this process
    /// wait, the answer is `None` without asking the store. Waiters whose futures are not polled do not count after two
    /// seconds.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](syncguard_core::try_acquire).
    ///
    /// # Cancel safety
    ///
    /// Safe: dropping the future leaves no lock behind.
    pub async fn try_acquire(&self) -> Result<Option<Permit<B>>, LockError> {
        self.config.check()?;
        if self.slots.queue.has_waiters() {
            return Ok(None);
        }
        Call::new(self, Duration::MAX, false).try_slots().await
    }

    /// Takes a permit. Waits in the queue while all permits are held.
    ///
    /// Only the head of this process's queue asks the store: it tries each slot once, watches all of them (see
    /// [`LockBackend::watch`]), and tries a slot again when it was given back, when its holder's lock expires, and, rarely,
    /// by polling.
    ///
    /// # Errors
    ///
    /// - `AcquisitionTimeout` when the time limit is over and all permits were held.
    /// - `NetworkTimeout` when the store did not answer in time.
    /// - `InvalidArgument` for a bad setting, before anything is sent.
    /// - The store's failures, at once.
    ///
    /// # Cancel safety
    ///
    /// Safe: dropping the future leaves no lock behind and gives up its place in the queue.
    pub async fn acquire(&self) -> Result<Permit<B>, LockError> {
        self.config.check()?;
        let options = self.config.acquisition();
        Call::new(self, options.timeout, options.max_retries > 0).acquire().await
    }
}

impl<B: LockBackend> fmt::Debug for Semaphore<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore")
            .field("backend", &self.backend.capabilities().backend)
            .field("key", &self.slots.key)
            .field("permits", &self.permits())
            .field("ttl", &self.config.ttl())
            .finish_non_exhaustive()
    }
}
