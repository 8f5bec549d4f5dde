//! The command as people run it: a process, its output and its exit status.

// The other crates support an older Rust without these units, and all crates are written alike.
#![allow(clippy::duration_suboptimal_units, reason = "as in the other crates")]

mod acquire;
mod bad_input;
mod copying;
mod default_store;
mod diagnoses;
mod doctor;
mod doctor_postgres;
mod doctor_redis;
mod emulator;
mod guide;
mod harness;
mod interactive;
mod monitoring;
mod odd_records;
mod other_languages;
mod other_users;
mod processes;
mod recipes;
mod ride_out;
mod run;
mod saved_locks;
mod schema;
mod secrets;
mod sharing;
mod shutdown;
mod snapshots;
mod stores;
mod streams;
mod supervision;
mod terminal;
mod ticks;
mod transcript;
mod watch;
