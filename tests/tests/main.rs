//! The stores on real servers, the differences between them, and programs that use them.

#![cfg_attr(
    not(feature = "seams"),
    allow(dead_code, unused_imports, reason = "helpers of tests that need seams")
)]

mod blocking;
mod certificates;
#[cfg(feature = "seams")]
mod differential;
mod etcd;
mod examples;
mod field;
mod firestore;
#[cfg(feature = "seams")]
mod fuzz_corpus;
mod mariadb;
mod postgres;
mod quickstart;
mod records_page;
mod redis;
mod sqlite;
mod support;
mod upgrades;
mod urls;
