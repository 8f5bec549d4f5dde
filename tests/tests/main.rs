//! The stores on real servers, the differences between them, and programs that use them.

mod blocking;
mod certificates;
mod differential;
mod etcd;
mod examples;
mod firestore;
mod mariadb;
mod object_store;
mod postgres;
mod quickstart;
mod records_page;
mod redis;
#[cfg(feature = "seams")]
mod seams;
mod sqlite;
mod support;
mod troubles;
mod upgrades;
mod urls;
