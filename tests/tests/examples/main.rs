//! The examples, as processes on real servers: what each promises is looked at from outside.

mod fenced_write;
mod leader;
mod migration_gate;
mod nightly_job;
mod stage;
mod webhook;
