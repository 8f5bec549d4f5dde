//! At most N permits at a time.

mod permit;
mod release_hook;
mod slot_key;
mod slot_watcher;
mod slots;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use syncguard_core::authoring::pause::Backoff;
use syncguard_core::authoring::{QueuePlace, answer_patience};
use syncguard_core::{
    AcquisitionOptions, AutoExtend, ErrorCode, IntoKey, IntoTtl, LockBackend, LockConfig,
    LockError, TryAcquired, try_acquire,
};
use tokio::time::{Instant, timeout_at};

pub use self::permit::Permit;
use self::release_hook::ReleaseHook;
use self::slot_watcher::{LeftWatches, SlotWatcher};
use self::slots::{Claim, Slots};

/// The recipe that observers are told for the locks of slots.
const RECIPE: &str = "semaphore";

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
/// and process, and clone it.
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
///
/// # Order
///
/// The callers of this process get their permits in the order in which they came. Between processes no order is
/// promised: a process that hands its slots on to itself lets other processes go first now and then.
#[derive(Clone)]
pub struct Semaphore<B> {
    backend: B,
    slots: Arc<Slots>,
    watches: Arc<LeftWatches>,
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
        slot_key::check_length(&key)?;
        let config =
            LockConfig::new(key.clone()).with_auto_extend(AutoExtend::new()).with_recipe(RECIPE);
        let slots = Arc::new(Slots::new(backend.client_state(), key, permits)?);
        Ok(Self { backend, slots, watches: Arc::default(), config })
    }

    /// How long a permit stays taken after a crash; the tolerance comes on top. Permits are renewed after a third of
    /// it. Default: 30 s. A bad TTL is reported when a permit is asked for.
    #[must_use]
    pub fn with_ttl(mut self, ttl: impl IntoTtl) -> Self {
        self.config = self.config.with_ttl(ttl);
        self
    }

    /// How long [`acquire`](Self::acquire) waits at most while all permits are held, 1 ms to 100 years. Default: 5 s.
    #[must_use]
    pub fn with_wait_up_to(mut self, timeout: Duration) -> Self {
        self.config = self.config.with_wait_up_to(timeout);
        self
    }

    /// How long [`acquire`](Self::acquire) waits, and the pauses between polls without signals. Default: 5 s, and pauses
    /// of 100 to 500 ms. Retries are not counted, but with 0 retries `acquire` does not wait.
    #[must_use]
    pub fn with_acquisition(mut self, acquisition: AcquisitionOptions) -> Self {
        self.config = self.config.with_acquisition(acquisition);
        self
    }

    /// How permits are kept alive, and the longest hold. Default: no limit on the hold.
    #[must_use]
    pub fn with_auto_extend(mut self, plan: AutoExtend) -> Self {
        self.config = self.config.with_auto_extend(plan);
        self
    }

    /// Keeps a permit for at least this long after it was granted, 1 ms to 100 years, also if it is given back earlier:
    /// see [`LockConfig::with_min_hold`]. Default: off.
    #[must_use]
    pub fn with_min_hold(mut self, min_hold: Duration) -> Self {
        self.config = self.config.with_min_hold(min_hold);
        self
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
        self.try_slots(true, &mut Asked::default()).await
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
        let (options, queue) = (self.config.acquisition(), &self.slots.queue);
        let deadline = Instant::now() + options.timeout;
        let mut asked = Asked::default();
        let waits = options.max_retries > 0;
        let is_behind = queue.has_waiters() || (waits && queue.owes_a_pause());
        if !is_behind && let Some(permit) = self.try_until(deadline, !waits, &mut asked).await? {
            return Ok(permit);
        }
        if !waits {
            return Err(self.all_held());
        }
        let place = Some(queue.enter());
        let (slots, left) = (&*self.slots, &*self.watches);
        let mut waiter = Waiter { place, watcher: None, slots, left };
        loop {
            if let Some(permit) = self.wait_as_head(&mut waiter, deadline, &mut asked).await? {
                return Ok(permit);
            }
        }
    }

    /// Tries each slot once, until the deadline.
    async fn try_until(
        &self,
        deadline: Instant,
        with_held: bool,
        asked: &mut Asked,
    ) -> Result<Option<Permit<B>>, LockError> {
        match timeout_at(deadline, self.try_slots(with_held, asked)).await {
            Ok(tried) => tried,
            Err(_) if asked.is_contention() => Err(self.all_held()),
            Err(_) => Err(self.unanswered()),
        }
    }

    /// Tries each slot once.
    async fn try_slots(
        &self,
        with_held: bool,
        asked: &mut Asked,
    ) -> Result<Option<Permit<B>>, LockError> {
        let mut tried = Vec::new();
        while let Some(claim) = self.slots.claim(with_held, &tried) {
            tried.push(claim.number);
            asked.sent = Some(Instant::now());
            let permit = self.try_slot(claim).await?;
            asked.answered();
            if permit.is_some() {
                return Ok(permit);
            }
        }
        Ok(None)
    }

    async fn try_slot(&self, claim: Claim) -> Result<Option<Permit<B>>, LockError> {
        let (backend, slots) = (self.backend.clone(), Arc::clone(&claim.slots));
        let slot = ReleaseHook { backend, slots, number: claim.number };
        // Boxed: otherwise the driver's future would be part of every caller's future.
        let config = self.config.clone().with_key(claim.key.clone());
        match Box::pin(try_acquire(&slot, config)).await? {
            TryAcquired::Acquired(guard) => {
                Ok(Some(Permit::new(guard, claim.granted(), self.config.ttl())))
            }
            TryAcquired::Busy(contention) => {
                claim.contended(contention);
                Ok(None)
            }
        }
    }

    /// Waits as the head; `None` if this head was passed over because its future was not polled.
    async fn wait_as_head(
        &self,
        waiter: &mut Waiter<'_>,
        deadline: Instant,
        asked: &mut Asked,
    ) -> Result<Option<Permit<B>>, LockError> {
        let left = || deadline.saturating_duration_since(Instant::now());
        let slots = &*self.slots;
        let Some(place) = waiter.place.as_mut() else { return Ok(None) };
        if !place.become_head(left()).await {
            return Err(self.all_held());
        }
        let watcher = waiter.watcher.get_or_insert_with(|| self.watches.take().unwrap_or_default());
        let options = self.config.acquisition();
        let longest = options.max_retry_delay.max(options.retry_delay);
        let pauses = Backoff::new(options.retry_delay, longest);
        let mut polls = 1;
        loop {
            place.leave_free(left()).await;
            place.on_attempt();
            let tried = self.try_until(deadline, false, asked).await?;
            if tried.is_some() {
                return Ok(tried);
            }
            if watcher.watch(&self.backend, slots, deadline).await {
                // A release before the watch began gave no signal, so try again.
                continue;
            }
            if left().is_zero() {
                return Err(self.all_held());
            }
            let poll_at = Instant::now() + pauses.pause(polls);
            let wakes = slots.next_free().unwrap_or(poll_at).min(poll_at).min(deadline);
            let signal = async {
                tokio::select! {
                    biased;
                    () = slots.changed.notified() => {}
                    () = watcher.signal(slots) => {}
                }
            };
            if !place.sleep(wakes.saturating_duration_since(Instant::now()), signal).await {
                return Ok(None);
            }
            if poll_at <= Instant::now() {
                polls += 1;
                slots.poll(watcher.on_poll());
            }
        }
    }

    fn unanswered(&self) -> LockError {
        LockError::new(
            ErrorCode::NetworkTimeout,
            format!(
                "the store did not answer within the acquisition limit of {:?}; what it may still \
                 grant is given back",
                self.config.acquisition().timeout
            ),
        )
        .with_unknown_outcome()
        .with_key(&self.slots.key)
    }

    fn all_held(&self) -> LockError {
        LockError::new(
            ErrorCode::AcquisitionTimeout,
            format!(
                "all {} permits were still held; the limit is {:?}",
                self.permits(),
                self.config.acquisition().timeout
            ),
        )
        .with_key(&self.slots.key)
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

/// The requests of one call. They tell contention from a store that hangs.
#[derive(Default)]
struct Asked {
    /// When the request was sent that has no answer yet.
    sent: Option<Instant>,
    /// The longest time that an answer took; `None` before the first answer.
    longest: Option<Duration>,
}

impl Asked {
    fn answered(&mut self) {
        if let Some(sent) = self.sent.take() {
            self.longest = self.longest.max(Some(sent.elapsed()));
        }
    }

    /// Whether the store answers, and all slots were held.
    fn is_contention(&self) -> bool {
        self.longest.is_some_and(|longest| {
            let patience = answer_patience(longest);
            self.sent.is_none_or(|sent| sent.elapsed() <= patience)
        })
    }
}

/// A waiter. Dropped, it leaves the watches to the next head; the last waiter ends them.
struct Waiter<'a> {
    /// `None` while it is being dropped.
    place: Option<QueuePlace>,
    /// If this is the head.
    watcher: Option<SlotWatcher>,
    slots: &'a Slots,
    left: &'a LeftWatches,
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        if let Some(watcher) = self.watcher.take() {
            self.left.put(watcher);
        }
        // Wakes the next head, which finds the watches.
        self.place = None;
        if !self.slots.queue.has_waiters() {
            drop(self.left.take());
        }
    }
}
