//! The command as people run it: a process, its output and its exit status.

mod bad_input;
mod bench;
mod copying;
mod cron;
mod diagnoses;
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
