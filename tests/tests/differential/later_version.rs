//! A later version of this library may add a field to the record of a lock. This version beside it keeps the field, as the
//! rules for records say, and has the same answers.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rusqlite::Connection;
use syncguard::contract::{AcquireRequest, ExtendRequest, Holder, LookupRequest, ReleaseRequest};
use syncguard::inventory::ListRequest;
use syncguard::{AcquisitionOptions, LockBackend as _, LockConfig, acquire};
use syncguard_test_services::store::Store;
use syncguard_tests::inventory::inventory;

use crate::differential::stores::{folder, part, url_of};
use crate::object_store::support::{Raw, name_of};
use crate::{etcd, firestore, postgres, redis};

const HOUR: Duration = Duration::from_secs(3600);

/// What the later version has written into its field.
const TEXT: &str = "from a later version";

/// Adds a field to the record of the key `k`, as a later version would have stored it.
async fn add_field(store: Store, part: &str) -> Result<()> {
    let field = format!(",\"later\":\"{TEXT}\"}}");
    match store {
        // It has no records for another process.
        Store::Memory => {}
        Store::Sqlite => {
            let sql = "UPDATE locks SET holder = holder || char(10) || ?1 WHERE key = 'k'";
            let file = Connection::open(folder().join(format!("{part}.db")))?;
            ensure!(file.execute(sql, [TEXT])? == 1);
        }
        Store::Redis => {
            let server = redis::support::shared();
            let script = "local text = redis.call('GET', KEYS[1])
                return redis.call('SET', KEYS[1], text:sub(1, -2) .. ARGV[1], 'PX', redis.call('PTTL', KEYS[1]))";
            server.cli(&["EVAL", script, "1", &format!("{part}:k"), &field])?;
        }
        Store::Postgres => {
            let table = part.replace('-', "_");
            let sql = format!("UPDATE {table} SET holder = holder || chr(10) || '{TEXT}'");
            postgres::support::shared().psql(&sql)?;
        }
        Store::Etcd => {
            let (raw, name) = (etcd::support::Raw(etcd::support::shared()), format!("{part}/l/k"));
            let text = raw.get(&name).context("a lock")?;
            raw.put(&name, &format!("{}{field}", text.trim_end_matches('}')));
        }
        Store::Firestore => {
            let raw = firestore::support::Raw::new(&format!("firestore://{part}"));
            let mut fields = raw.get("locks/k").await.context("a lock")?;
            fields.insert("later".to_owned(), firestore::support::text(TEXT));
            raw.set("locks/k", fields).await;
        }
        Store::ObjectStore => {
            let (raw, name) = (Raw::new(), name_of(part, "k"));
            let text = raw.get(&name).await.context("a lock")?;
            raw.put(&name, &format!("{}{field}}}", text.trim_end_matches('}'))).await;
        }
    }
    Ok(())
}

/// The record of the key `k`, as it is stored.
async fn stored(store: Store, part: &str) -> Result<String> {
    Ok(match store {
        Store::Memory => TEXT.to_owned(),
        Store::Sqlite => {
            let file = Connection::open(folder().join(format!("{part}.db")))?;
            file.query_row("SELECT holder FROM locks", (), |row| row.get(0))?
        }
        Store::Redis => redis::support::shared().cli(&["GET", &format!("{part}:k")])?,
        Store::Postgres => {
            let table = part.replace('-', "_");
            postgres::support::shared().psql(&format!("SELECT holder FROM {table}"))?
        }
        Store::Etcd => {
            let raw = etcd::support::Raw(etcd::support::shared());
            raw.get(&format!("{part}/l/k")).context("a lock")?
        }
        Store::Firestore => {
            let raw = firestore::support::Raw::new(&format!("firestore://{part}"));
            format!("{:?}", raw.get("locks/k").await.context("a lock")?)
        }
        Store::ObjectStore => Raw::new().get(&name_of(part, "k")).await.context("a lock")?,
    })
}

#[tokio::test]
async fn every_store_keeps_the_field_of_a_later_version() -> Result<()> {
    let holder = Holder::new("a \"label\" \\ é")?.with_note("{\"note\":1}, \\n")?;
    for store in Store::ALL {
        let part = part();
        // A process that knows the lock, as the one that took it, and one that has to look it up.
        let ours = syncguard::connect(&url_of(store, &part, 60_000)).await?;
        let other = syncguard::connect(&url_of(store, &part, 60_000)).await?;
        let other = if store.is_shared() { other } else { ours.clone() };
        let request = AcquireRequest::new("k", HOUR)?.with_holder(holder.clone());
        let id = request.lock_id;
        ensure!(ours.acquire(request).await?.is_acquired(), "{store}");
        add_field(store, &part).await?;
        for backend in [&other, &ours, &other] {
            let extended = backend.extend(ExtendRequest::new(id, 2 * HOUR)?).await?;
            ensure!(extended.is_extended(), "{store}");
            let record = stored(store, &part).await?;
            ensure!(record.contains(TEXT), "{store} has lost a field: {record}");
            for lookup in [LookupRequest::by_key("k")?, LookupRequest::by_lock_id(id)] {
                let found = backend.lookup(lookup).await?.with_context(|| store)?;
                ensure!(found.holder.as_ref() == Some(&holder), "{store}: {found:?}");
            }
            let listed = inventory(backend).list_locks(ListRequest::new()).await?.entries;
            let listed: Vec<_> = listed.iter().map(|lock| lock.holder.as_ref()).collect();
            ensure!(listed == [Some(&holder)], "{store}: {listed:?}");
        }
        let short = AcquisitionOptions::new().with_timeout(Duration::from_millis(50));
        let config = LockConfig::new("k").with_acquisition(short);
        let error = acquire(&other, config).await.unwrap_err();
        // The error has a holder unless the store took long to say it.
        ensure!(error.holder().is_none_or(|named| *named == holder), "{store}: {error:?}");
        ensure!(other.release(ReleaseRequest::new(id)).await?.is_released(), "{store}");
        ensure!(ours.acquire(AcquireRequest::new("k", HOUR)?).await?.is_acquired(), "{store}");
        ensure!(store == Store::Memory || !stored(store, &part).await?.contains(TEXT), "{store}");
    }
    Ok(())
}
