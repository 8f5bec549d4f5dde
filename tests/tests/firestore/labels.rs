//! Processes with labels, processes without, and a client like the TypeScript library on the same keys.

#![allow(clippy::print_stdout, reason = "counts for a human eye")]

use anyhow::Result;
use syncguard_firestore::gcloud_sdk::tonic::Code;
use syncguard_firestore::{FirestoreBackend, LockId};
use syncguard_test_effort::either;
use syncguard_tests::labels::{Other, Site, Size, Tables, run};
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

use crate::firestore::support::{Raw, fresh, options};
use crate::firestore::transactional::Transactional;

struct Firestore {
    url: String,
}

impl Site for Firestore {
    type Other = TypeScript;

    async fn connect(&self, label: &str) -> Result<syncguard::DynBackend> {
        let options = options().with_holder(label);
        let backend = FirestoreBackend::connect_with(&self.url, options).await?;
        Ok(syncguard::DynBackend::new(backend))
    }

    async fn other(&self) -> Result<TypeScript> {
        Ok(TypeScript(Raw::new(&self.url)))
    }

    /// An acquire writes the whole document, so an expired one has no label to leave behind.
    async fn expire(&self, _: &str) -> Result<bool> {
        Ok(false)
    }

    async fn migrate(&self) -> Result<()> {
        Ok(())
    }
}

/// Each request has a thread of its own, because the futures of the client stay on their thread.
struct TypeScript(Raw);

impl TypeScript {
    fn client(&self) -> Transactional {
        Transactional(self.0.clone())
    }
}

impl Other for TypeScript {
    async fn acquire(&mut self, key: &str, lock_id: LockId) -> Result<Option<u64>> {
        let (client, key) = (self.client(), key.to_owned());
        let runtime = Handle::current();
        let acquire = move || runtime.block_on(client.acquire(&key, lock_id, 60_000));
        match spawn_blocking(acquire).await? {
            // Its transactions met ours too often, and wrote nothing.
            Err(status) if status.code() == Code::Aborted => Ok(None),
            answer => Ok(answer?),
        }
    }

    async fn release(&mut self, lock_id: LockId) -> Result<bool> {
        loop {
            let (client, runtime) = (self.client(), Handle::current());
            let release = move || runtime.block_on(client.release(lock_id));
            match spawn_blocking(release).await? {
                Err(status) if status.code() == Code::Aborted => {}
                answer => return Ok(answer?),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_lookup_shows_the_label_of_another_lock() -> Result<()> {
    let size = Size { labelled: 1, unlabelled: 1, others: 1, rounds: either(8, 60) };
    println!("{}", run(Firestore { url: fresh() }, Tables::Ours, size).await?);
    Ok(())
}
