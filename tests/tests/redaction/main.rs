//! No key, lock id or password gets into a log, a span, an event or an error, on any backend, whether the library, a
//! driver or a dependency of a driver wrote the line.
//!
//! The tests read all log lines at TRACE level, through `tracing` and through the `log` crate, while the conformance
//! suite and further errors run on each backend, with telemetry around it. No driver, target or level is left out.

mod etcd;
#[path = "../etcd/support.rs"]
#[allow(dead_code, reason = "it has more than this binary uses")]
mod etcd_support;
mod firestore;
#[path = "../firestore/support.rs"]
#[allow(dead_code, reason = "it has more than this binary uses")]
mod firestore_support;
mod memory;
mod net;
mod object_store;
#[path = "../object_store/support.rs"]
#[allow(dead_code, reason = "it has more than this binary uses")]
mod object_store_support;
mod planted;
mod postgres;
mod redis;
mod scenario;
mod sqlite;
mod watched;

use anyhow::Result;
use syncguard_test_services::store::Store;
use syncguard_test_services::test_each_store;
use tokio::runtime::Runtime;

fn says_nothing(store: Store) -> Result<()> {
    Runtime::new()?.block_on(async {
        let _turn = scenario::turn().await;
        match store {
            Store::Memory => memory::says_nothing().await,
            Store::Sqlite => sqlite::says_nothing().await,
            Store::Redis => redis::says_nothing().await,
            Store::Postgres => postgres::says_nothing().await,
            Store::Etcd => etcd::says_nothing().await,
            Store::Firestore => firestore::says_nothing().await,
            Store::ObjectStore => object_store::says_nothing().await,
        }
    });
    Ok(())
}

test_each_store!(says_nothing);
