//! Refuses a lock inside of a command that runs under the same lock.

use std::env;

use syncguard::DynBackend;
use syncguard::diagnostics::get_by_key;

use super::request::LockRequest;
use super::sharing;
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
    let (slot, sharing) = (env::var("SYNCGUARD_SLOT").ok(), env::var(sharing::VARIABLE).ok());
    let is_reader = request.sharing.is_some() && sharing.as_deref() == Some("shared");
    let key = request.config.key()?.expose();
    let (lock, message) = match (sharing, &slot) {
        (Some(sharing), _) if request.sharing.is_some() => {
            let part = slot.as_deref().filter(|_| is_reader).unwrap_or("gate");
            let message = format!(
                "this command already runs with --{sharing} under this lock, and would wait for itself. Take the lock \
                 in one place, with --exclusive if any part of the work writes"
            );
            (format!("{key}:rw:{part}"), message)
        }
        // A permit differs from the lock of the same key.
        (_, None) if request.is_plain() => (key.to_owned(), MESSAGE.to_owned()),
        _ => return Ok(()),
    };
    // A process that outlives its `syncguard run` has the variables as well, and may take the lock.
    let held = get_by_key(backend, lock).await?;
    let fence = env::var("SYNCGUARD_FENCE").unwrap_or_default();
    match held {
        Some(info) if is_reader || info.fence.to_string() == fence => Err(Failure::usage(message)),
        _ => Ok(()),
    }
}

/// Whether the `syncguard run` that started this program has this key and store.
fn is_named_by_environment(key: &str, store: &Store) -> bool {
    let is_set = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    is_set("SYNCGUARD_KEY", key) && is_set("SYNCGUARD_STORE", &without_password(store.expose()))
}
