//! The recipes, on the memory backend.

mod common;
mod cron;
mod election;
mod lock_all;
mod logs;
mod rw_lock;
mod semaphore;
mod spawned;
mod ticks;
