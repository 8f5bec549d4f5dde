//! The servers that the tests start.

mod firestore;
mod late;
mod orphans;
mod postgres;
mod redis;
