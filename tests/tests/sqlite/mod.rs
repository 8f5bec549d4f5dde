//! syncguard-sqlite, with its own files and processes.

pub(crate) mod conformance;
mod damaged;
mod durability;
mod faults;
mod fenced;
mod inventory;
mod late;
mod limits;
pub(crate) mod support;
mod torn;
mod watch;
