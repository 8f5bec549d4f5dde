//! Releases a lock of `syncguard acquire`.

use std::path::Path;

use serde_json::json;
use syncguard::contract::ReleaseRequest;
use syncguard::{Key, LockBackend as _};

use crate::commands::record_file::{is_stdin, shown};
use crate::commands::saved_lock::SavedLock;
use crate::exit::{Failure, Status};
use crate::output::{print, print_json};
use crate::store::Store;
use crate::time::until;

pub(super) async fn release(from: &Path, as_json: bool, store: &Store) -> Result<Status, Failure> {
    let lock = SavedLock::read(from, store)?;
    let request = ReleaseRequest::new(lock.lock_id).with_key_hint(Key::new(lock.key.as_str())?);
    let backend = store.connect().await?;
    // If the store fails, the file stays: the lock may still be held.
    let was_held = backend.release(request).await?.is_released();
    // A store of the same name may be another one, such as that of another machine's `localhost`.
    let is_over = was_held || until(lock.expires_at).is_zero();
    if !is_stdin(from) && is_over {
        lock.remove(from).map_err(|error| {
            let what = format!("the lock is over, but {} cannot be removed", shown(from));
            Failure::system(&what, &error)
        })?;
    }
    if as_json {
        print_json(&json!({
            "key": lock.key,
            "released": was_held,
            "lockIdHash": lock.lock_id.hash_id().to_string(),
            "oldFence": lock.fence,
            "newFence": null,
        }))?;
    } else if was_held {
        print("released")?;
    }
    if was_held {
        return Ok(Status::SUCCESS);
    }
    let says = if is_stdin(from) || is_over {
        GONE.to_owned()
    } else {
        format!(
            "{GONE}. {} stays until the expiry in it, in case the lock is in another store: remove it if you know better",
            shown(from)
        )
    };
    Err(Failure::new(Status::LOST, says))
}

const GONE: &str = "this store did not hold the lock any more: it has expired, was released, or was taken away. Another \
                    process may have had it meanwhile";
