//! Many readers or one writer.

mod keys;
mod process;
mod read;
mod write;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::{select_ok, try_join_all};
use syncguard_core::Jitter;
use syncguard_core::authoring::recipes::as_recipe;
use syncguard_core::contract::Holder;
use syncguard_core::{
    Contention, ErrorCode, LockBackend, LockConfig, LockError, LockGuard, TryAcquired, acquire,
    try_acquire,
};
use tokio::time::Instant;

use self::process::{Process, Slot};
pub use self::read::ReadGuard;
pub use self::write::WriteGuard;
use crate::settings::{counts_no_retries, unless_cancelled};
use crate::wait_limit::WaitLimit;

/// The recipe that observers are told for these locks.
const RECIPE: &str = "rw_lock";

/// Many readers or one writer, over all processes.
///
/// ```
/// use syncguard_core::{LockBackend, LockError};
/// use syncguard_recipes::RwLock;
///
/// # async fn load() {}
/// # async fn rebuild(_: impl Sized) {}
/// async fn refresh<B: LockBackend>(backend: B) -> Result<(), LockError> {
///     let index = RwLock::new(backend, "index", 8); // up to 8 processes read at a time
///     let write = index.write().await?;
///     rebuild(write.fence()).await; // nobody reads it meanwhile
///     let read = write.downgrade();
///     load().await; // nobody rebuilds it meanwhile
///     read.release().await.map(drop)
/// }
/// ```
///
/// Clones share one slot for the readers of this process. Make one for each key and process, and clone it.
///
/// # How it works
///
/// There are locks for a gate and for N slots. A process that begins to read takes the gate, takes a slot for all its readers,
/// and gives the gate back. A writer takes the gate and then all slots, which the readers leave when they are done.
///
/// - **Nobody starves.** Readers and writers pass the gate in the order in which the lock of the gate is granted. Readers join
///   those of their process for half a second; then the next one passes the gate, and stands behind a writer that
///   waits there. A writer of the same process keeps readers from joining at once.
/// - **A crash** of a reader or a writer blocks the others until the TTL and
///   [`TIME_TOLERANCE`](syncguard_core::contract::TIME_TOLERANCE) are over.
/// - **Fences** come from the gate, so they order reads and writes: see [`ReadGuard`] and [`WriteGuard`].
///
/// # What is stored
///
/// The gate is the lock of the key in NFC with `:rw:gate` behind it, and slot `i`, from 0, of the key with `:rw:i`. So a key
/// has at most 504 bytes.
///
/// # The number of slots
///
/// More processes than slots may use the lock; those above the number wait for a slot. Processes may have different
/// numbers, as during a roll-out:
///
/// - **A process that begins to read** announces its number in the counter of the gate, if a smaller one stands there: while
///   it has the gate, and before it asks for a slot. If that fails, it does not read.
/// - **A writer** announces nothing. It takes as many slots as the counter says, and at least as many as its own number.
/// - **A downgrade** keeps slot 0, which each writer takes, whatever its number is.
///
/// So the fences begin at the largest number times 10^10. The store keeps the largest number for ever; fewer slots need a new
/// key. A store without fences cannot remember the number: there, all processes must agree.
#[derive(Clone)]
pub struct RwLock<B: LockBackend> {
    backend: B,
    slots: u32,
    /// For the lock of the gate and of each slot, without its key.
    config: LockConfig,
    process: Arc<Process<B>>,
    /// The slot to try first. It is random, so that processes spread out.
    first: Arc<AtomicU32>,
}

impl<B: LockBackend> RwLock<B> {
    /// The lock that all users of this key share, of which 1 to 64 processes can read at a time. Takes the key, of at most 504
    /// bytes, or a [`LockConfig`] with it, for the gate and for each slot: its TTL, how long to wait for readers and writers
    /// in all (requests for free slots do not count), and so on. The locks are renewed.
    ///
    /// The first call reports a bad argument. A number of retries is bad, other than 0, and so is a minimum hold: the gate is
    /// given back at once.
    pub fn new(backend: B, config: impl Into<LockConfig>, slots: u32) -> Self {
        let config = as_recipe(config, RECIPE);
        let spread = slots.max(1);
        let random = Jitter::Full.of(Duration::from_nanos(spread.into())).subsec_nanos();
        let first = Arc::new(AtomicU32::new(random % spread));
        Self { backend, slots, config, process: Arc::new(Process::new()), first }
    }

    /// Reports the first bad argument.
    fn check(&self) -> Result<(), LockError> {
        self.config.check()?;
        counts_no_retries(&self.config, "a read/write lock")?;
        if self.config.min_hold().is_some() {
            return Err(LockError::invalid_argument(
                "a read/write lock has no minimum hold: its gate is given back at once",
            ));
        }
        keys::check(self.config.key()?, self.slots)
    }

    /// Begins to read. Waits while a writer writes, or waits at the gate.
    ///
    /// If this process reads already, the call sends nothing, except for one passage of the gate each half second. Otherwise
    /// it takes two round trips: the gate and a slot. If all slots are taken, the call waits for one. A task that reads should
    /// not ask for another read: it can wait for a writer that waits for the first one, until the time limit.
    ///
    /// # Errors
    ///
    /// - The errors of [`acquire`], such as `AcquisitionTimeout`.
    /// - `InvalidArgument` for a bad setting; and if this process has the largest number of slots so far, from a backend
    ///   without an inventory, which cannot announce it.
    /// - `ServiceUnavailable` if the gate was lost before a slot was granted.
    ///
    /// # Cancel safety
    ///
    /// Safe: dropping the future leaves no lock behind.
    pub async fn read(&self) -> Result<ReadGuard<B>, LockError> {
        self.check()?;
        if let Some(share) = self.process.join() {
            return Ok(ReadGuard::new(share));
        }
        let mut wait = Box::pin(self.wait_to_read());
        unless_cancelled(&self.config, wait.as_mut()).await
    }

    async fn wait_to_read(&self) -> Result<ReadGuard<B>, LockError> {
        let began = Instant::now();
        // Outside of the loop, so that a reader keeps its place in the queue.
        let mut gate = None;
        loop {
            let opened = self.process.opened.notified();
            if let Some(share) = self.process.join() {
                return Ok(ReadGuard::new(share));
            }
            let gate = gate.get_or_insert_with(|| Box::pin(self.gate(Some(began))));
            tokio::select! {
                biased;
                () = opened => {}
                gate = gate => return Box::pin(self.enter(gate?)).await?.ok_or_else(gate_lost),
            }
        }
    }

    /// Begins to read if no writer writes or waits right now. A process that begins to read has the gate for a moment, and then
    /// the answer is `Busy`, too.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    ///
    /// # Cancel safety
    ///
    /// Safe: dropping the future leaves no lock behind.
    pub async fn try_read(&self) -> Result<TryAcquired<ReadGuard<B>>, LockError> {
        self.check()?;
        if let Some(share) = self.process.join() {
            return Ok(TryAcquired::Acquired(ReadGuard::new(share)));
        }
        let gate = self.gate(None).await?;
        Box::pin(self.enter(gate)).await.map(tried)
    }

    /// Begins to write. Waits for the readers and for writers before.
    ///
    /// If nobody reads, it takes two round trips: the gate, and all slots at once.
    ///
    /// A task that reads cannot write: its writer would wait for its own read for ever. It gets an error at once. A read
    /// counts for the task that asked for it until it ends, also if another branch of a `join!` has the [`ReadGuard`], or
    /// another task: write in a task of its own then.
    ///
    /// # Errors
    ///
    /// - The errors of [`acquire`], such as `AcquisitionTimeout`.
    /// - `InvalidArgument` for a bad setting, and if this task reads.
    /// - `ServiceUnavailable` if a lock was lost while others were waited for.
    ///
    /// # Cancel safety
    ///
    /// Safe: dropping the future leaves no lock behind, and lets readers pass.
    pub async fn write(&self) -> Result<WriteGuard<B>, LockError> {
        let mut write = Box::pin(self.write_since(Some(Instant::now())));
        unless_cancelled(&self.config, write.as_mut()).await?.ok_or_else(gate_lost)
    }

    /// Begins to write if nobody reads or writes right now.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    ///
    /// # Cancel safety
    ///
    /// Safe: dropping the future leaves no lock behind.
    pub async fn try_write(&self) -> Result<TryAcquired<WriteGuard<B>>, LockError> {
        Box::pin(self.write_since(None)).await.map(tried)
    }

    /// `began` is `None` for a caller that does not wait.
    async fn write_since(
        &self,
        began: Option<Instant>,
    ) -> Result<Option<WriteGuard<B>>, LockError> {
        self.check()?;
        self.process.refuse_upgrade()?;
        let _waiting = Arc::clone(&self.process.writers);
        let Some((gate, limit)) = self.gate(began).await? else { return Ok(None) };
        let all = keys::announced(gate.fence()).unwrap_or(0).max(self.slots);
        let slots = (0..all).map(|slot| self.slot(slot, limit));
        let slots = tokio::select! {
            biased;
            _ = gate.lost() => return Err(gate_lost()),
            slots = try_join_all(slots) => slots?,
        };
        let Some(slots) = slots.into_iter().collect() else { return Ok(None) };
        // If the gate is still held, it was when the last slot was granted, and no later writer has written before.
        let write = WriteGuard::new(gate, slots, Arc::clone(&self.process));
        if write.valid_for().is_zero() { Err(gate_lost()) } else { Ok(Some(write)) }
    }

    /// The process begins to read, if it has the gate, and gives the gate back. The answer is `None` without the gate, if no
    /// slot is free and there is no time to wait, and if the gate was lost.
    async fn enter(
        &self,
        gate: Option<(LockGuard<B>, Limit)>,
    ) -> Result<Option<ReadGuard<B>>, LockError> {
        let Some((gate, limit)) = gate else { return Ok(None) };
        if let Some(share) = self.process.renew() {
            return Ok(Some(ReadGuard::new(share)));
        }
        self.announce(&gate).await?;
        let Some((number, guard)) = self.any_slot(limit).await? else { return Ok(None) };
        self.first.store(number, Ordering::Relaxed);
        // If the gate is still held, no later writer has got past this slot.
        let is_in_order = !gate.valid_for().is_zero();
        let held = guard.held().with_fence(gate.fence());
        let open = || ReadGuard::new(self.process.open(Slot { guard, number, held }));
        Ok(is_in_order.then(open))
    }

    /// Makes sure that each later writer takes at least as many slots as this process may read in.
    async fn announce(&self, gate: &LockGuard<B>) -> Result<(), LockError> {
        if keys::announced(gate.fence()).is_none_or(|slots| slots >= self.slots) {
            return Ok(());
        }
        let inventory = self.backend.inventory().ok_or_else(|| {
            LockError::invalid_argument(
                "the backend has no inventory to announce the number of slots in",
            )
        })?;
        let counter = keys::announcing(self.slots)?;
        inventory.raise_counter(keys::gate(self.config.key()?)?, counter).await.map(drop)
    }

    /// One of the slots. If all are taken, it waits for the first that becomes free, and gives back the others that it was
    /// granted meanwhile.
    async fn any_slot(&self, limit: Limit) -> Result<Option<(u32, LockGuard<B>)>, LockError> {
        let first = self.first.load(Ordering::Relaxed);
        let mut sent = Instant::now();
        for slot in (0..self.slots).map(|offset| (first + offset) % self.slots) {
            sent = Instant::now();
            match self.slot(slot, None).await {
                Ok(None) => {}
                // The waits ride it out.
                Err(_) if self.rides_out(limit) => break,
                taken => return taken,
            }
        }
        let Some(limit) = limit else { return Ok(None) };
        let limit = WaitLimit { last_answer: sent.elapsed(), ..limit };
        let waits = (0..self.slots).map(|slot| Box::pin(self.wait_for_slot(slot, limit)));
        select_ok(waits).await.map(|(taken, _)| Some(taken))
    }

    /// Whether a caller with this limit goes on after a failure of its first try.
    fn rides_out(&self, limit: Limit) -> bool {
        limit.is_some() && !self.config.ride_out().is_zero()
    }

    /// This slot. It is waited for only if it is not free, so that the limit cuts off no request for a free slot.
    async fn slot(
        &self,
        slot: u32,
        limit: Limit,
    ) -> Result<Option<(u32, LockGuard<B>)>, LockError> {
        let config = self.config.clone().with_key(keys::slot(self.config.key()?, slot)?);
        let sent = Instant::now();
        // Boxed: otherwise the driver's future would be part of every caller's future.
        match Box::pin(try_acquire(&self.backend, config)).await {
            Ok(TryAcquired::Acquired(guard)) => return Ok(Some((slot, guard))),
            Ok(TryAcquired::Busy(_)) => {}
            // The wait rides it out.
            Err(_) if self.rides_out(limit) => {}
            Err(error) => return Err(error),
        }
        let Some(limit) = limit else { return Ok(None) };
        let limit = WaitLimit { last_answer: sent.elapsed(), ..limit };
        self.wait_for_slot(slot, limit).await.map(Some)
    }

    async fn wait_for_slot(
        &self,
        slot: u32,
        limit: WaitLimit,
    ) -> Result<(u32, LockGuard<B>), LockError> {
        let key = keys::slot(self.config.key()?, slot)?;
        let still_held = |holder: Option<&Holder>| {
            let message = format!(
                "the lock of a slot was still held; the limit for all of the waiting is {:?} (with_wait_up_to)",
                limit.whole
            );
            let error = LockError::new(ErrorCode::AcquisitionTimeout, message).with_key(&key);
            holder.cloned().into_iter().fold(error, LockError::with_holder)
        };
        if !limit.has_time() {
            return Err(still_held(None));
        }
        let config = self.config.clone().with_key(key.clone());
        let guard = limit.acquire(&self.backend, config, still_held).await?;
        Ok((slot, guard))
    }

    /// The gate, and what is left of the limit for the slots. A caller that does not wait gives no beginning, and gets `None`
    /// if another caller has the gate.
    async fn gate(
        &self,
        began: Option<Instant>,
    ) -> Result<Option<(LockGuard<B>, Limit)>, LockError> {
        let config = self.config.clone().with_key(keys::gate(self.config.key()?)?);
        let Some(began) = began else {
            let gate = Box::pin(try_acquire(&self.backend, config)).await?.acquired();
            return Ok(gate.map(|gate| (gate, None)));
        };
        // The gate is waited for first, and so it has the whole limit.
        let gate = Box::pin(acquire(&self.backend, config)).await?;
        let whole = self.config.acquisition().timeout;
        let limit = WaitLimit { whole, left: whole, last_answer: Duration::ZERO };
        let left = whole.saturating_sub(began.elapsed());
        // After an outage that was ridden out, the caller has the whole limit anew, as with any lock.
        let is_anew = left.is_zero() && self.rides_out(Some(limit));
        Ok(Some((gate, Some(if is_anew { limit } else { WaitLimit { left, ..limit } }))))
    }
}

/// `None` for a caller that does not wait.
type Limit = Option<WaitLimit>;

/// The answer for a caller that does not wait: what has the gate or a slot may end at any time.
fn tried<G>(guard: Option<G>) -> TryAcquired<G> {
    guard.map_or(TryAcquired::Busy(Contention::default()), TryAcquired::Acquired)
}

fn gate_lost() -> LockError {
    LockError::new(
        ErrorCode::ServiceUnavailable,
        "a lock was lost while others were waited for; nothing is held",
    )
}

impl<B: LockBackend> fmt::Debug for RwLock<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RwLock")
            .field("backend", &self.backend.capabilities().backend)
            .field("config", &self.config)
            .field("slots", &self.slots)
            .finish_non_exhaustive()
    }
}
