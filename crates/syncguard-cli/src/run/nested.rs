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
    #[cfg(feature = "permits")]
    if request.sharing.is_some() {
        return super::sharing::Sharing::refuse_nested(backend, request, key, store).await;
    }
    if !request.is_plain() || !is_named_by_environment(key, store) {
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

fn is_named_by_environment(key: &str, store: &Store) -> bool {
    let is_set = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    is_set("SYNCGUARD_KEY", key)
        && is_set("SYNCGUARD_STORE", &without_password(store.expose()))
        // A permit differs from the lock of the same key.
        && env::var_os("SYNCGUARD_SLOT").is_none()
}
