//! The suite, on backends that keep the contract and on backends that break it.

mod memory;
mod mutants;
mod no_fence;
mod subscribers;
mod suite;
