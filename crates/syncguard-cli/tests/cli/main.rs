//! The command as people run it: a process, its output and its exit status.

mod bad_input;
mod bench;
mod doctor;
mod guide;
mod interactive;
mod inventory;
mod looking;
mod processes;
mod run;
mod stores;
mod terminal;
