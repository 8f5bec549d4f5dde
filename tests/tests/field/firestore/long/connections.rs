//! Connections that are silent, addresses that never answer, and runtimes that end.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use syncguard_firestore::contract::SignalStatus;
use syncguard_firestore::{ErrorCode, FirestoreBackend, FirestoreOptions, acquire};
use syncguard_test_services::proxy::FaultProxy;
use syncguard_tests::emulator::emulator_client;
use tokio::runtime::Builder;

use crate::field::firestore::backend;
use crate::field::silent::drops_packets;
use crate::field::{runtimes, take};
use crate::firestore::support::shared;

/// Patient with a busy machine; the calls that fail take this long.
fn impatient() -> FirestoreOptions {
    FirestoreOptions::new().with_request_timeout(Duration::from_secs(3))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_connection_that_drops_packets_costs_one_call() -> Result<()> {
    let proxy = FaultProxy::start(shared().port())?;
    let ours = backend(&format!("127.0.0.1:{}", proxy.port()), "silent", impatient()).await?;
    let other = backend(&shared().host_port(), "silent", impatient()).await?;
    let hears = || ours.signals() == SignalStatus::Working;
    let failures = drops_packets(&ours, &other, &proxy, hears).await?;
    ensure!(failures <= 1, "{failures} calls failed");
    Ok(())
}

#[test]
fn a_backend_outlives_its_runtimes() -> Result<()> {
    let address = shared().host_port();
    runtimes::one_after_another(|| Box::pin(backend(&address, "runtimes", impatient())))
}

/// The backend cannot make the program's client anew.
#[test]
fn a_client_whose_runtime_has_ended_is_said_to_be_the_trouble() -> Result<()> {
    let first = Builder::new_current_thread().enable_all().build()?;
    let backend = first.block_on(async {
        let database = "projects/client/databases/(default)";
        let client =
            emulator_client(&shared().host_port(), database, Some("owner"), Arc::default())?;
        anyhow::Ok(FirestoreBackend::from_client(client, impatient().with_project("client"))?)
    })?;
    first.block_on(async { while take(&backend, "key").await.is_err() {} });
    drop(first);
    let second = Builder::new_current_thread().enable_all().build()?;
    let error = second.block_on(acquire(&backend, "other")).unwrap_err();
    ensure!(error.code() == ErrorCode::InvalidArgument && !error.is_retryable(), "{error:?}");
    ensure!(error.message().contains("runtime"), "{error}");
    Ok(())
}
