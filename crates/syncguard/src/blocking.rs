//! Locks for programs without a runtime: every call blocks its thread.
//!
//! The URLs and the settings are those of the asynchronous API. Connections and renewals run on a thread of their own, which
//! the clones of [`Locks`] share: a lock is renewed while its holder computes.
//!
//! ```
//! use std::time::Duration;
//! use syncguard::{AutoExtend, LockConfig, blocking};
//!
//! # fn charge(_: syncguard::Fence) -> Result<u32, std::io::Error> { Ok(7) }
//! # fn archive(_: u32, _: syncguard::Fence) -> Result<(), std::io::Error> { Ok(()) }
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let locks = blocking::connect("memory:")?;
//!
//!     // The first `?` is for the lock, the second for the work.
//!     let receipt = locks.lock("payment:123", |held| charge(held.fence()))??;
//!     # assert_eq!(receipt, 7);
//!
//!     // Work that is longer than its TTL, in steps, for as long as the lock is held.
//!     let nightly = LockConfig::new("job:nightly")
//!         .with_ttl(Duration::from_secs(30))
//!         .with_auto_extend(AutoExtend::new());
//!     let guard = locks.acquire(nightly)?;
//!     for part in 0..12 {
//!         if guard.is_lost() {
//!             return Err("the lock is lost: another machine goes on".into());
//!         }
//!         archive(part, guard.fence())?;
//!     }
//!     Ok(())
//! } // The lock is released before `main` returns, and so it is after an early `?` or a panic.
//! ```
//!
//! - **A lock is released before the call returns that ends it**: [`Locks::lock`], [`LockGuard::release`], or the drop of a
//!   guard, each for the dispose timeout at most (5 s unless set). A release that fails is tried again until the last
//!   handle is dropped, which waits for as long once more. `std::process::exit` and a panic that aborts drop nothing: the
//!   lock then ends by its TTL.
//! - **In a tokio runtime**, and in its `spawn_blocking`, a call fails with `InvalidArgument` and names the asynchronous
//!   call to use in its place. A guard or a last handle that is dropped there does not wait.
//! - **After a `fork`** calls fail in the child, and a guard from before the fork does nothing there: its lock is the
//!   parent's. Connect after the fork.

mod driver;
mod guard;

use std::fmt;
use std::sync::Arc;

use syncguard_core::{DynBackend, Fence, Held, LockBackend, LockConfig, LockError, TryAcquired};

use self::driver::Driver;
pub use self::guard::LockGuard;

/// Connects to the store that a URL names: see [`syncguard::connect`](crate::connect()).
///
/// # Errors
///
/// As [`syncguard::connect`](crate::connect()), and as [`Locks::open`].
pub fn connect(url: &str) -> Result<Locks, LockError> {
    Ok(Locks(Arc::new(Driver::start(crate::connect(url), "syncguard::connect")?)))
}

/// A connected store, whose locks are taken by calls that block. Clones share the connections and their thread.
///
/// The drop of the last clone, or of the last guard if that lives longer, gives back what is not released yet, for the
/// dispose timeout at most.
#[derive(Clone)]
pub struct Locks(Arc<Driver>);

impl Locks {
    /// Makes a backend with options that a URL cannot set: takes the future of its constructor.
    ///
    /// ```
    /// use syncguard::{blocking::Locks, memory::MemoryBackend};
    ///
    /// let locks = Locks::open(async { Ok(MemoryBackend::new()) })?;
    /// # Ok::<_, syncguard::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of the future. `InvalidArgument` in a tokio runtime. `Internal` if the system gives no thread.
    pub fn open<B>(backend: impl Future<Output = Result<B, LockError>>) -> Result<Self, LockError>
    where
        B: LockBackend<Fence = Fence>,
    {
        let opened = async { backend.await.map(DynBackend::new) };
        Ok(Self(Arc::new(Driver::start(opened, "the constructor")?)))
    }

    /// Runs work while holding a lock, and releases the lock before it returns, also after a panic.
    ///
    /// The result of the work is returned unchanged. `Ok` means that the work ran, and not that the lock was held to
    /// its end: [`Held::is_lost`] tells that between two steps, and the [fence](Held::fence) in each write keeps a late
    /// write out.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire). After an error, the work has not started.
    pub fn lock<T>(
        &self,
        config: impl Into<LockConfig>,
        work: impl FnOnce(Held) -> T,
    ) -> Result<T, LockError> {
        let acquire = crate::acquire(&self.0.backend, config);
        let guard = LockGuard::new(self.0.run(acquire, "syncguard::lock")??, self);
        // The guard is dropped after the work, in any case.
        Ok(work(Held::clone(&guard)))
    }

    /// Takes a lock, and waits for it: see [`syncguard::acquire`](crate::acquire()).
    ///
    /// # Errors
    ///
    /// As [`syncguard::acquire`](crate::acquire()). `InvalidArgument` in a tokio runtime, and in a process that was
    /// forked after [`connect`].
    pub fn acquire(&self, config: impl Into<LockConfig>) -> Result<LockGuard, LockError> {
        let acquire = crate::acquire(&self.0.backend, config);
        Ok(LockGuard::new(self.0.run(acquire, "syncguard::acquire")??, self))
    }

    /// Takes a lock if it is free right now: see [`syncguard::try_acquire`](crate::try_acquire()).
    ///
    /// # Errors
    ///
    /// As [`syncguard::try_acquire`](crate::try_acquire()), and as [`acquire`](Self::acquire).
    pub fn try_acquire(
        &self,
        config: impl Into<LockConfig>,
    ) -> Result<TryAcquired<LockGuard>, LockError> {
        let tried = crate::try_acquire(&self.0.backend, config);
        let tried = self.0.run(tried, "syncguard::try_acquire")??;
        Ok(tried.map(|guard| LockGuard::new(guard, self)))
    }

    /// Runs a future of the asynchronous API on [`backend`](Self::backend), for what this module lacks: listings,
    /// look-ups, recipes. Release asynchronous guards in it: one that is dropped later is released in the background.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` as for [`acquire`](Self::acquire).
    pub fn block_on<F: Future>(&self, future: F) -> Result<F::Output, LockError> {
        self.0.run(future, "the future")
    }

    /// The backend, for the asynchronous API.
    #[must_use]
    pub fn backend(&self) -> &DynBackend {
        &self.0.backend
    }
}

impl fmt::Debug for Locks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locks").field("backend", &self.backend().capabilities().backend).finish()
    }
}
