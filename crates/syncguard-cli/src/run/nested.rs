//! Refuses a lock inside of a command that runs under the same lock.

use std::env;

use syncguard::DynBackend;
use syncguard::diagnostics::get_by_key;

use super::request::LockRequest;
use crate::exit::Failure;
use crate::store::{Store, without_password};

const MESSAGE: &str = "this command already runs under this lock, which the `syncguard run` around it holds until \
                       this command ends: it would wait for itself. Take the lock in one place, or give one of the \
                       two another key";

/// # Errors
///
/// Fails if this program asks for the lock of the `syncguard run` that started it.
pub(super) async fn refuse(
    backend: &DynBackend,
    request: &LockRequest,
    key: &str,
    store: &Store,
) -> Result<(), Failure> {
    if !is_named_by_environment(key, store) {
        return Ok(());
    }
    #[cfg(feature = "permits")]
    if request.sharing.is_some() {
        return refuse_shared(backend, request).await;
    }
    // A permit differs from the lock of the same key.
    if !request.is_plain() || env::var_os("SYNCGUARD_SLOT").is_some() {
        return Ok(());
    }
    // A process that outlives its `syncguard run` has the variables as well, and may take the lock.
    let held = get_by_key(backend, request.config.key()?.clone()).await?;
    let fence = env::var("SYNCGUARD_FENCE").unwrap_or_default();
    if held.is_some_and(|info| info.fence.to_string() == fence) {
        return Err(Failure::usage(MESSAGE));
    }
    Ok(())
}

/// # Errors
///
/// Fails if this program was started under the same read/write lock, for which it would wait.
#[cfg(feature = "permits")]
async fn refuse_shared(backend: &DynBackend, request: &LockRequest) -> Result<(), Failure> {
    let Ok(sharing) = env::var(super::sharing::VARIABLE) else { return Ok(()) };
    let part = env::var("SYNCGUARD_SLOT").ok().filter(|_| sharing == "shared");
    let part = part.as_deref().unwrap_or("gate");
    let held = get_by_key(backend, format!("{}:rw:{part}", request.config.key()?.expose())).await?;
    // A process that outlives its `syncguard run` has the variables as well, and may take the lock.
    let fence = env::var("SYNCGUARD_FENCE").unwrap_or_default();
    if held.is_some_and(|info| sharing == "shared" || info.fence.to_string() == fence) {
        return Err(Failure::usage(format!(
            "this command already runs with --{sharing} under this lock, and would wait for itself. Take the lock in one \
             place, with --exclusive if any part of the work writes"
        )));
    }
    Ok(())
}

/// Whether the `syncguard run` that started this program has this key and store.
fn is_named_by_environment(key: &str, store: &Store) -> bool {
    let is_set = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    is_set("SYNCGUARD_KEY", key) && is_set("SYNCGUARD_STORE", &without_password(store.expose()))
}
