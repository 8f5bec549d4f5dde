//! The protocols, in every order of events.

mod common;
mod firestore;
mod postgres;
mod redis;
