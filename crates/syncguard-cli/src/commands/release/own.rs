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
    let stays = !is_stdin(from) && !is_over;
    if !is_stdin(from) && is_over {
        lock.remove(from).map_err(|error| {
            Failure::system(
                &format!("the lock is over, but {} cannot be removed", shown(from)),
                &error,
            )
        })?;
    }
    let printed = if as_json {
        print_json(&json!({
            "key": lock.key,
            "released": was_held,
            "lockIdHash": lock.lock_id.hash_id().to_string(),
            "oldFence": lock.fence,
            "newFence": null,
        }))
    } else if was_held {
        print("released")
    } else {
        Ok(())
    };
    printed.map_err(Failure::output)?;
    if !was_held {
        let stays = if stays {
            let name = shown(from);
            format!(
                ". {name} stays until the expiry in it, in case the lock is in another store: remove it if you know better"
            )
        } else {
            String::new()
        };
        return Err(Failure::new(
            Status::LOST,
            format!(
                "this store did not hold the lock any more: it has expired, was released, or was taken away. Another \
                 process may have had it meanwhile{stays}"
            ),
        ));
    }
    Ok(Status::SUCCESS)
}
