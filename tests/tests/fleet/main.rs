//! Fleets under locks, while processes are killed and stopped and the way to the store breaks; and
//! the ten invariants over what they recorded.

#![allow(clippy::print_stdout, reason = "figures and seeds for a human eye")]

mod election;
mod min_hold;
mod recipes;
mod semaphore;
mod shaky;
mod tasks;
