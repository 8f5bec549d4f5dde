//! Troubles that users of locks met in the field, one test each, on real servers: stores that fill up, move, fall
//! silent, refuse or hide.

mod etcd;
mod firestore;
mod lasting;
mod postgres;
mod redis;
mod runtimes;
mod silent;
mod sqlite;
