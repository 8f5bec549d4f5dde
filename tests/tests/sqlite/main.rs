//! syncguard-sqlite, on files of its own and with processes of its own.

mod conformance;
mod crashes;
mod damaged;
mod durability;
mod faults;
mod inventory;
mod late;
mod model;
mod support;
mod torn;
mod watch;
