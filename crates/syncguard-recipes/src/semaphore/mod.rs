//! At most N permits at a time.

mod call;
mod permit;
mod release_hook;
mod slot_watcher;
mod slots;

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use syncguard_core::authoring::recipes::as_recipe;
use syncguard_core::{Contention, LockBackend, LockConfig, LockError, TryAcquired};

use self::call::Call;
pub use self::permit::Permit;
use self::slots::Slots;
use crate::settings::unless_cancelled;

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
/// fn configure<B: LockBackend>(backend: B) -> Semaphore<B> {
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
    /// An error is reported by the first call.
    slots: Result<Arc<Slots>, Box<LockError>>,
    /// For the lock of each slot, without the slot's key.
    config: LockConfig,
}

impl<B: LockBackend> Semaphore<B> {
    /// The semaphore that all users of this key share, with 1 to 1024 permits. Takes the key, of at most 500 bytes, or a
    /// [`LockConfig`] with it, for each permit: its TTL, how long [`acquire`](Self::acquire) waits, with pauses between polls
    /// where there are no signals, the longest hold, and so on. A permit is renewed.
    ///
    /// The first call reports a bad argument. A number of retries is bad, other than 0, with which `acquire` does not wait:
    /// the slots share the tries.
    pub fn new(backend: B, config: impl Into<LockConfig>, permits: u32) -> Self {
        let config = as_recipe(config, "semaphore");
        let slots = Slots::new(backend.client_state(), &config, permits);
        Self { backend, slots: slots.map(Arc::new).map_err(Box::new), config }
    }

    /// The number of permits in this process's view; zero if it was bad.
    #[must_use]
    pub fn permits(&self) -> u32 {
        self.slots.as_ref().map_or(0, |slots| slots.permits())
    }

    /// Changes the number of permits for all clones in this process. No permit is lost by that: see
    /// [Changing the number](Self#changing-the-number).
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a bad number; 1 to 1024 are allowed.
    pub fn set_permits(&self, permits: u32) -> Result<(), LockError> {
        self.slots()?.set_permits(permits)
    }

    fn slots(&self) -> Result<&Arc<Slots>, LockError> {
        self.slots.as_ref().map_err(|error| LockError::clone(error))
    }

    /// Takes a permit if there is one right now.
    ///
    /// The call tries one slot after the other, the likeliest first: one round trip if the slot that this process gave back
    /// last is free, at most as many as there are slots. It does not overtake: while other callers of this process
    /// wait, the answer is `Busy` without asking the store. Waiters whose futures are not polled do not count after two
    /// seconds.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](syncguard_core::try_acquire).
    ///
    /// # Cancel safety
    ///
    /// Safe: dropping the future leaves no lock behind.
    pub async fn try_acquire(&self) -> Result<TryAcquired<Permit<B>>, LockError> {
        let slots = self.slots()?;
        if slots.queue.has_waiters() {
            return Ok(TryAcquired::Busy(Contention::default()));
        }
        let permit = Call::new(self, slots, Duration::MAX, false).try_slots().await?;
        Ok(permit.map_or_else(|| TryAcquired::Busy(slots.contention()), TryAcquired::Acquired))
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
    /// - `Aborted` when the configuration's token fires.
    /// - `InvalidArgument` for a bad argument, before anything is sent.
    /// - The store's failures, at once or after the time to [ride out](LockConfig::with_ride_out).
    ///
    /// # Cancel safety
    ///
    /// Safe: dropping the future leaves no lock behind and gives up its place in the queue.
    pub async fn acquire(&self) -> Result<Permit<B>, LockError> {
        let (slots, options) = (self.slots()?, self.config.acquisition());
        let mut call = Call::new(self, slots, options.timeout, options.max_retries > 0);
        unless_cancelled(&self.config, pin!(call.acquire())).await
    }
}

impl<B: LockBackend> fmt::Debug for Semaphore<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore")
            .field("backend", &self.backend.capabilities().backend)
            .field("config", &self.config)
            .field("permits", &self.permits())
            .finish_non_exhaustive()
    }
}
