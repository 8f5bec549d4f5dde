//! A bucket.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use syncguard_object_store::{ErrorCode, ObjectStoreBackend, ObjectStoreOptions, acquire};
use syncguard_test_services::azurite::AzuriteServer;

use super::silent::Silent;
use crate::object_store::support::{backend_at, fresh, options, shared};

/// Each operation ends within its time, with an error that may be tried again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_is_silent_costs_no_more_than_the_time_of_an_operation() -> Result<()> {
    for silent in Silent::of_each_kind().await? {
        let second = Duration::from_secs(1);
        let options = ObjectStoreOptions::new().with_request_timeout(second);
        let options = options.with_operation_timeout(2 * second).with_connect_timeout(second);
        let began = Instant::now();
        let backend = backend_at(silent.port(), "p", options).await;
        let error = acquire(&backend, "k").await.unwrap_err();
        ensure!(error.is_retryable(), "{error:?}");
        ensure!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    }
    Ok(())
}

/// A container that is not there is no bucket of free keys.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_that_is_not_there_is_named_as_such() -> Result<()> {
    let url = AzuriteServer::url_at(shared().port(), &fresh()).replace("//locks/", "//nobody/");
    let error = ObjectStoreBackend::connect_with(&url, options()).await.unwrap_err();
    ensure!(error.code() == ErrorCode::InvalidArgument, "{error:?}");
    ensure!(error.message().contains("no such bucket"), "{error:?}");
    Ok(())
}
