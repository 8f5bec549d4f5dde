//! Fleets under locks, while processes are killed and stopped and the way to the store breaks; and
//! the eight invariants over what they recorded.

mod chaos;
mod processes;
mod shaky;
mod stores;
mod tasks;
