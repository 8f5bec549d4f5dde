//! Credentials that never come, and clients whose runtime has ended.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use syncguard_firestore::{
    ErrorCode, FirestoreBackend, FirestoreOptions, LockBackend as _, LockId, acquire,
};
use syncguard_tests::emulator::emulator_client;
use tokio::runtime::Builder;

use crate::firestore::support::{Raw, fresh, request, shared};
use crate::troubles::silent::all_fail;
use crate::troubles::take;

fn impatient() -> FirestoreOptions {
    let limit = Duration::from_secs(1);
    FirestoreOptions::new().with_request_timeout(limit).with_operation_timeout(2 * limit)
}

/// For example, a missing metadata server.
#[tokio::test]
async fn credentials_that_never_come_are_bounded() -> Result<()> {
    let url = fresh();
    let silent = Raw::without_credentials(&url);
    let backend = silent.backend(&url, &impatient());
    all_fail(&backend, LockId::generate()?, ErrorCode::NetworkTimeout).await?;
    let error = backend.acquire(request("k", 60_000)).await.unwrap_err();
    assert!(!error.is_outcome_unknown(), "{error:?}");
    Ok(())
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
