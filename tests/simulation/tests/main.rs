//! Fleets on the simulated network.

mod fairness;
mod simulation;
mod ticks;
