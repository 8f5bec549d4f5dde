//! Common uses of locks: a leader election, a semaphore, readers and writers, a schedule, and several locks at once.
//!
//! | recipe | what it gives |
//! |---|---|
//! | [`Election`] | one of many processes leads, and when it stops or dies, another one leads |
//! | [`Semaphore`] | at most N permits at a time, over all processes |
//! | [`RwLock`] | many readers or one writer, over all processes |
//! | [`Ticks`] | each tick of a schedule runs once, over all processes |
//! | [`lock_all`] | several locks or none, without deadlocks |
//!
//! The recipes need [`syncguard_core`] alone, so they work with any [`LockBackend`](syncguard_core::LockBackend):
//! each of the stores, a store that is chosen at run time, and a decorated backend. Each lock that they take has a fence
//! of its own. Locks are kept alive for as long as they are held, and their holders are told of a loss.
//!
//! A [minimum hold](syncguard_core::LockConfig::with_min_hold), for jobs that run once in a period, is part of the core.
//!
//! The guide in the documentation of the `syncguard` crate (its module `guide`) has a page for each recipe.

#![doc(html_root_url = "https://docs.rs/syncguard-recipes/latest")]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod election;
mod lock_set;
mod outage;
mod rw_lock;
mod semaphore;
mod settings;
mod ticks;
mod wait_limit;

pub use self::election::{Election, ElectionHandle, Term, TermEnd};
pub use self::lock_set::{LockSet, lock_all, try_lock_all};
pub use self::rw_lock::{ReadGuard, RwLock, WriteGuard};
pub use self::semaphore::{Permit, Semaphore};
pub use self::ticks::{Missed, Schedule, StartedTick, Tick, TickOutcome, TickStatus, Ticks};

// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
