//! Fleets that lock, while processes are killed and stopped and the network breaks; their records are checked against
//! the eleven invariants.

#![allow(clippy::print_stdout, reason = "figures and seeds for a human eye")]

mod election;
mod min_hold;
mod recipes;
mod semaphore;
mod shaky;
mod tasks;
mod ticks;
