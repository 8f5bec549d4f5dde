//! What people build from locks again and again: a leader election, a semaphore, several locks at once.
//!
//! | recipe | what it gives |
//! |---|---|
//! | [`Election`] | of many processes one leads, and when it stops or dies another one does |
//! | [`Semaphore`] | at most N processes at a time do something |
//! | [`lock_all`] | several locks or none, and no deadlock |
//!
//! They stand on [`syncguard_core`] alone, and so on any [`LockBackend`](syncguard_core::LockBackend):
//! each of the stores, one chosen at run time, and one in a decorator. Each lock that they take has a fence of its
//! own. All locks are kept alive for as long as they are held, and whoever holds them hears of a loss.
//!
//! A fourth one is part of the core: a
//! [minimum hold](syncguard_core::LockConfig::with_min_hold), for jobs that run once in a period.
//!
//! The guide in the documentation of the `syncguard` crate (its module `guide`) has a page for each.

#![doc(html_root_url = "https://docs.rs/syncguard-recipes/latest")]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod election;
mod join;
mod lock_set;
mod semaphore;

pub use self::election::{Election, ElectionHandle, Term, TermEnd};
pub use self::lock_set::{LockSet, lock_all};
pub use self::semaphore::{Permit, Semaphore};

// So that what people see first compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
