//! The programs of this package are in `src/bin`. They use crates that a user of the library does not need, so they
//! are not among the library's own examples.
//!
//! The documentation of this crate has pages of the library whose snippets need several of its crates at once. They
//! are compiled and run as doc tests of this package.

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub mod readme {}

#[cfg(doctest)]
#[doc = include_str!("../../../crates/syncguard/README.md")]
pub mod package_page {}

#[cfg(doctest)]
#[doc = include_str!("../../../crates/syncguard/src/guide/custom_backend.md")]
pub mod custom_backend {}
