//! At most so many at a time.

mod desk;
mod freed;
mod key;
mod pace;
mod permit;
mod slots;
mod turns;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use syncguard_core::{
    AcquisitionOptions, AutoExtend, ErrorCode, IntoKey, IntoTtl, LockBackend, LockConfig,
    LockError, TryAcquired, try_acquire,
};
use tokio::sync::OwnedMutexGuard;
use tokio::time::{Instant, timeout_at};

use self::desk::Desk;
use self::freed::Freed;
pub use self::permit::Permit;
use self::slots::{Claim, Slots, Worth};
use self::turns::Turns;

/// What observers are told that the locks of slots are part of.
const RECIPE: &str = "semaphore";

/// At most so many at a time, over all processes: each permit is one of N slots, and each slot a lock of its
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
/// Clones share what they know of the slots, and the line in which the callers of this process wait. Make one for
/// each key and process, and clone it.
///
/// # What is stored
///
/// Slot `i` is the lock of the key that is made of the semaphore's key in NFC, the bytes `:permit:`, and `i` in
/// decimal, from 0, without leading zeros. So a semaphore's key has at most 500 bytes. Whoever
/// locks such a key takes the slot away.
///
/// # Changing the number
///
/// Processes with different numbers, as during a roll-out, are safe: each uses the slots below its own, and
/// together they never have more than the largest number. Whoever holds a slot above a smaller number keeps it
/// until it gives it back. [`set_permits`](Self::set_permits) changes the number while the process runs.
///
/// # Order
///
/// The callers of this process get their permits in the order in which they came. Between processes there
/// is no order, and no promise: a process that hands its slots on to itself lets others go first now and
/// then.
pub struct Semaphore<B> {
    backend: B,
    slots: Arc<Slots>,
    turns: Arc<Turns>,
    /// Of each slot, but for its key.
    config: LockConfig,
}

impl<B: LockBackend> Semaphore<B> {
    /// A semaphore of everybody who uses this key, with 1 to 1024 permits.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a bad key, one of more than 500 bytes, and a bad number.
    pub fn new(backend: B, key: impl IntoKey, permits: u32) -> Result<Self, LockError> {
        let key = key.into_key()?;
        key::check_length(&key)?;
        let config =
            LockConfig::new(key.clone()).with_auto_extend(AutoExtend::new()).with_recipe(RECIPE);
        let slots = Arc::new(Slots::new(key, permits)?);
        Ok(Self { backend, slots, turns: Arc::default(), config })
    }

    /// How long a permit stays taken after a crash, but for the tolerance. Permits are renewed three times
    /// as often. Default: 30 s. A bad one is reported when a permit is asked for.
    #[must_use]
    pub fn with_ttl(mut self, ttl: impl IntoTtl) -> Self {
        self.config = self.config.with_ttl(ttl);
        self
    }

    /// How long [`acquire`](Self::acquire) waits at most while all permits are held, 1 ms to 100 years. Default: 5 s.
    #[must_use]
    pub fn wait_up_to(mut self, timeout: Duration) -> Self {
        self.config = self.config.wait_up_to(timeout);
        self
    }

    /// How long [`acquire`](Self::acquire) waits, and the pauses between looks where no signal comes. Default: 5 s,
    /// and pauses of 100 to 500 ms. Retries are not counted, but with none at all nothing is waited for.
    #[must_use]
    pub fn with_acquisition(mut self, acquisition: AcquisitionOptions) -> Self {
        self.config = self.config.with_acquisition(acquisition);
        self
    }

    /// How permits are kept alive: with a cap on the hold, if wanted. Default: without one.
    #[must_use]
    pub fn with_auto_extend(mut self, plan: AutoExtend) -> Self {
        self.config = self.config.with_auto_extend(plan);
        self
    }

    /// Keeps a permit for at least this long after it was granted, 1 ms to 100 years, also where it is given back
    /// earlier: see [`LockConfig::with_min_hold`]. Default: off.
    #[must_use]
    pub fn with_min_hold(mut self, min_hold: Duration) -> Self {
        self.config = self.config.with_min_hold(min_hold);
        self
    }

    /// How many permits there are, as far as this process goes.
    #[must_use]
    pub fn permits(&self) -> u32 {
        self.slots.permits()
    }

    /// Changes the number of permits, for all clones in this process. Nobody loses a permit by that: see
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
    /// Slots are asked for one after the other, the likeliest first: one round trip where this process gave one
    /// back last, at most as many as there are slots. It does not overtake: while others of this process wait, it
    /// is `None` without asking the store. Callers whose futures nobody polls do not count after two seconds.
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
        if self.slots.waiting() > 0 && !self.turns.is_stuck() {
            return Ok(None);
        }
        self.sweep(Worth::Any).await
    }

    /// Takes a permit, waiting for its turn while all of them are held.
    ///
    /// One caller of this process asks the store for all that wait: it looks at each slot once, listens to all
    /// of them (see [`LockBackend::watch`]), and asks for a slot again when it was given back, when its holder's
    /// time is over, and, rarely, without a reason.
    ///
    /// # Errors
    ///
    /// - `AcquisitionTimeout` when the time limit is over and all permits were held by others.
    /// - `NetworkTimeout` when the store did not answer in time.
    /// - `InvalidArgument` for a bad setting, before anything is sent.
    /// - The store's failures, at once.
    ///
    /// # Cancel safety
    ///
    /// Safe: dropping the future leaves no lock behind, and gives up its place in the queue.
    pub async fn acquire(&self) -> Result<Permit<B>, LockError> {
        self.config.check()?;
        let options = self.config.acquisition();
        let deadline = Instant::now() + options.timeout;
        if options.max_retries == 0 {
            let tried = self.within(deadline, self.try_acquire()).await?;
            return tried.ok_or_else(|| self.all_held());
        }
        let is_first = self.slots.waiting() == 0;
        if is_first {
            self.turns.begin();
        }
        if (is_first || self.turns.is_stuck())
            && let Some(permit) = self.within(deadline, self.sweep(Worth::News)).await?
        {
            return Ok(permit);
        }
        let _waits = self.slots.wait();
        loop {
            let desk = self.turns.next(deadline).await.ok_or_else(|| self.all_held())?;
            let mut turn = Turn { desk, slots: &self.slots, turns: &self.turns };
            if let Some(permit) = self.wait_for_one(&mut turn.desk, deadline).await? {
                return Ok(permit);
            }
        }
    }

    /// Asks for those that are worth a try, each once.
    async fn sweep(&self, worth: Worth) -> Result<Option<Permit<B>>, LockError> {
        let mut tried = Vec::new();
        while let Some(claim) = self.slots.claim(worth, &tried) {
            tried.push(claim.number);
            if let Some(permit) = self.ask(claim).await? {
                return Ok(Some(permit));
            }
        }
        Ok(None)
    }

    /// Asks for one slot.
    async fn ask(&self, claim: Claim) -> Result<Option<Permit<B>>, LockError> {
        let (backend, slots) = (self.backend.clone(), Arc::clone(&claim.slots));
        let slot = Freed { backend, slots, number: claim.number };
        // Boxed: a driver's future would be part of every caller's.
        let config = self.config.clone().with_key(claim.key.clone());
        match Box::pin(try_acquire(&slot, config)).await? {
            TryAcquired::Acquired(guard) => {
                Ok(Some(Permit::new(guard, claim.granted(), self.config.ttl())))
            }
            TryAcquired::Held(contention) => {
                claim.refused(contention);
                Ok(None)
            }
        }
    }

    /// Waits as the one of this process that does; `None` if it was passed over, since nobody polled it.
    async fn wait_for_one(
        &self,
        desk: &mut OwnedMutexGuard<Desk>,
        deadline: Instant,
    ) -> Result<Option<Permit<B>>, LockError> {
        /// A store that takes longer is not waited for before the next caller asks.
        const ANSWER: Duration = Duration::from_secs(10);
        desk.begin(&self.config.acquisition());
        loop {
            if !self.turns.is_at(desk) {
                return Ok(None);
            }
            let pause = self.slots.step_back();
            self.turns.is_busy_until(Instant::now() + pause + ANSWER);
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            if let Some(permit) = self.within(deadline, self.sweep(Worth::News)).await? {
                return Ok(Some(permit));
            }
            if desk.listen(&self.backend, &self.slots, deadline).await {
                // What happened before it listened was not heard.
                continue;
            }
            if deadline <= Instant::now() {
                return Err(self.all_held());
            }
            let wakes = desk.wakes_at(&self.slots, deadline);
            self.turns.is_busy_until(wakes);
            desk.sleep(&self.slots, wakes).await;
        }
    }

    async fn within<T>(
        &self,
        deadline: Instant,
        asked: impl Future<Output = Result<T, LockError>>,
    ) -> Result<T, LockError> {
        timeout_at(deadline, asked).await.unwrap_or_else(|_| {
            Err(LockError::new(
                ErrorCode::NetworkTimeout,
                format!(
                    "the store did not answer within the acquisition limit of {:?}; what it may still \
                     grant is given back",
                    self.config.acquisition().timeout
                ),
            )
            .with_key(self.slots.key()))
        })
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
        .with_key(self.slots.key())
    }
}

impl<B: Clone> Clone for Semaphore<B> {
    fn clone(&self) -> Self {
        let Self { backend, slots, turns, config } = self;
        Self {
            backend: backend.clone(),
            slots: Arc::clone(slots),
            turns: Arc::clone(turns),
            config: config.clone(),
        }
    }
}

impl<B: LockBackend> fmt::Debug for Semaphore<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore")
            .field("backend", &self.backend.capabilities().backend)
            .field("key", self.slots.key())
            .field("permits", &self.permits())
            .field("ttl", &self.config.ttl())
            .finish_non_exhaustive()
    }
}

/// One of this process waits at the desk. Dropped, it leaves it to the next one, if there is one.
struct Turn<'a> {
    desk: OwnedMutexGuard<Desk>,
    slots: &'a Slots,
    turns: &'a Turns,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // One of them is this one.
        if self.slots.waiting() <= 1 {
            self.desk.close();
        }
        if self.turns.is_at(&self.desk) {
            self.turns.is_busy_until(Instant::now());
        }
    }
}
