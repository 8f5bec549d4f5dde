//! The command as people run it: a process, its output and its exit status.

// The other crates build with an older Rust, which has no such units; all are to read alike.
#![allow(clippy::duration_suboptimal_units, reason = "as in the other crates")]

mod bad_input;
mod bench;
mod copying;
mod cron;
mod diagnoses;
mod dist;
mod doctor;
mod doctor_postgres;
mod guide;
mod interactive;
mod inventory;
mod looking;
mod odd_records;
mod processes;
mod run;
mod schema;
mod secrets;
mod shutdown;
mod snapshots;
mod statuses;
mod stores;
mod supervision;
mod terminal;
