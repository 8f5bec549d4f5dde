//! The examples, as processes on real servers: their promises are checked from outside.

mod fenced_write;
mod leader;
mod migration_gate;
mod nightly_job;
mod stage;
mod webhook;
