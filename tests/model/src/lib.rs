//! The protocol of `SyncGuard` as a model: small worlds of three clients, one key and a network that may delay, lose
//! and repeat, in which a checker (stateright) tries every order of events.
//!
//! | file | what it mirrors |
//! |---|---|
//! | `client.rs` | the work of every client: `locking/guard/lease.rs`, `locking/guard/validity.rs` and `cancel` of `syncguard-core` |
//! | `store.rs` | what the contract says of a store (`contract/`), each operation in one step |
//!
//! Every backend carries out an operation in one atomic step: a script, a statement under a lock, a commit with
//! preconditions. How it does so is the subject of its own tests and of the simulation. Here a change of the client's
//! rules, or of the contract, needs a change of a step.
//!
//! Times count from now, so worlds that differ only in their absolute time are one. Clients with the same history are
//! interchangeable. Both make the number of worlds finite; `small.rs` makes it small enough to visit all.

#![cfg(test)]

mod client;
mod protocol;
mod small;
mod store;
mod tests;
mod world;
