//! Signals between processes.

mod hand_overs;
mod lost;
mod poolers;
mod stage;
mod tidy;
