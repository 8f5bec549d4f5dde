//! Records of the TypeScript library, and ours.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result};
use serde_json::Value as Json;
use syncguard_firestore::contract::{
    AcquireResult, ExtendRequest, Holder, LookupRequest, ReleaseRequest,
};
use syncguard_firestore::gcloud_sdk::google::firestore::v1::value::ValueType;
use syncguard_firestore::inventory::ListRequest;
use syncguard_firestore::{
    Fence, FirestoreBackend, FirestoreOptions, LockBackend as _, LockId, LockInfo,
};
use syncguard_tests::example_record;

use crate::firestore::support::{Raw, backend_with, fresh, options, request, text};

/// The part of `vectors/typescript.json` for Firestore: records that SyncGuard 2.5 wrote through Node's SDK.
fn vectors() -> Vec<Json> {
    let all: Json = serde_json::from_str(include_str!(
        "../../../crates/syncguard-core/vectors/typescript.json"
    ))
    .expect("JSON");
    all["firestore"].as_array().expect("records").clone()
}

fn value(json: &Json, doubles: bool) -> ValueType {
    match json {
        Json::String(string) => text(string),
        Json::Number(number) if doubles => {
            ValueType::DoubleValue(number.as_f64().expect("a number"))
        }
        Json::Number(number) => ValueType::IntegerValue(number.as_i64().expect("an integer")),
        other => panic!("{other} is in no record"),
    }
}

fn fields_of(document: &Json, doubles: bool) -> HashMap<String, ValueType> {
    let fields = document["data"].as_object().expect("fields").iter();
    fields.map(|(name, json)| (name.clone(), value(json, doubles))).collect()
}

/// Writes a record as it is in the vectors.
async fn write(raw: &Raw, collection: &str, document: &Json, doubles: bool) {
    let path = format!("{collection}/{}", document["id"].as_str().expect("an id"));
    let fields = fields_of(document, doubles);
    let mut fields = fields.iter().map(|(name, value)| (name.as_str(), value.clone()));
    match fields.len() {
        5 => raw.set(&path, [(); 5].map(|()| fields.next().expect("five"))).await,
        2 => raw.set(&path, [(); 2].map(|()| fields.next().expect("two"))).await,
        other => panic!("{other} fields"),
    }
}

/// A backend whose clock shows the time of the record.
async fn backend_at(url: &str, millis: u64) -> FirestoreBackend {
    let then = SystemTime::UNIX_EPOCH + Duration::from_millis(millis);
    let options: FirestoreOptions = options().with_clock(move || then);
    backend_with(url, options).await
}

#[tokio::test]
async fn theirs_are_read_extended_and_released() -> Result<()> {
    let mut seen = 0;
    for vector in vectors() {
        let Some(document) = vector["locks"].get(0) else { continue };
        for doubles in [false, true] {
            seen += 1;
            let url = fresh();
            let raw = Raw::new(&url);
            write(&raw, "locks", document, doubles).await;
            for counter in vector["fences"].as_array().context("fences")? {
                write(&raw, "fence_counters", counter, doubles).await;
            }
            let data = &document["data"];
            let number = |field: &str| data[field].as_u64().context("a number");
            let (key, id) = (
                data["key"].as_str().context("key")?,
                LockId::new(data["lockId"].as_str().context("id")?)?,
            );
            let ours = backend_at(&url, number("acquiredAtMs")? + 1000).await;

            // Under the user's key, which was normalised when it was stored.
            let user_key = vector["key"].as_str().context("a key")?;
            for lookup in [LookupRequest::by_key(user_key)?, LookupRequest::by_lock_id(id)] {
                let found = ours.lookup(lookup).await?.context("a live lock")?;
                assert_eq!(found.holder, None);
                assert_eq!(found.acquired_at.as_millis(), number("acquiredAtMs")?);
                assert_eq!(found.expires_at.as_millis(), number("expiresAtMs")?);
                assert_eq!(found.fence.to_string(), data["fence"].as_str().context("fence")?);
                let raw = found.expose();
                assert_eq!((raw.key.expose(), raw.lock_id), (key, id));
            }
            let AcquireResult::Locked(refused) = ours.acquire(request(user_key, 1000)).await?
            else {
                panic!("held");
            };
            assert!(refused.holder_polls);
            let extend = ExtendRequest::new(id, Duration::from_secs(7200))?;
            assert!(ours.extend(extend).await?.is_extended());
            assert!(ours.release(ReleaseRequest::new(id)).await?.is_released());
            let next = ours.acquire(request(user_key, 1000)).await?.acquired().context("free")?;
            let before: Fence = data["fence"].as_str().context("fence")?.parse()?;
            assert_eq!(next.fence, before.next()?);
        }
    }
    assert!(seen >= 8, "{seen} records");
    Ok(())
}

/// All records together.
#[tokio::test]
async fn theirs_are_listed() -> Result<()> {
    for doubles in [false, true] {
        let url = fresh();
        let raw = Raw::new(&url);
        let (mut locks, mut counted, mut latest) = (BTreeMap::new(), BTreeSet::new(), 0);
        for vector in vectors() {
            for document in vector["locks"].as_array().into_iter().flatten() {
                write(&raw, "locks", document, doubles).await;
                let data = &document["data"];
                latest = latest.max(data["acquiredAtMs"].as_u64().context("a time")?);
                locks.insert(data["key"].as_str().context("key")?.to_owned(), data.clone());
            }
            for counter in vector["fences"].as_array().into_iter().flatten() {
                write(&raw, "fence_counters", counter, doubles).await;
                let key = counter["data"]["keyDebug"].as_str().context("keyDebug")?;
                counted.insert(key.to_owned());
            }
        }
        let ours = backend_at(&url, latest + 1000).await;
        let page = ours.inventory().expect("an inventory").list_locks(ListRequest::new()).await?;
        assert!(page.corrupt.is_empty() && page.next.is_none());
        let listed: Vec<_> = page.entries.into_iter().map(LockInfo::expose).collect();
        // In byte order, like the map.
        assert!(listed.iter().map(|lock| lock.key.expose()).eq(locks.keys()));
        for (lock, data) in listed.iter().zip(locks.values()) {
            assert_eq!(lock.lock_id, LockId::new(data["lockId"].as_str().context("id")?)?);
            assert_eq!(lock.info.fence.to_string(), data["fence"].as_str().context("fence")?);
            assert_eq!(
                lock.info.expires_at.as_millis(),
                data["expiresAtMs"].as_u64().context("a time")?
            );
        }
        assert!(listed.len() >= 4, "{} records", listed.len());
        let counters =
            ours.inventory().expect("an inventory").list_counters(ListRequest::new()).await?;
        assert!(counters.corrupt.is_empty());
        assert!(counters.entries.iter().map(|one| one.key.expose()).eq(counted.iter()));
    }
    Ok(())
}

#[tokio::test]
async fn ours_are_what_theirs_are() -> Result<()> {
    let mut seen = 0;
    for vector in vectors() {
        let Some(document) = vector["locks"].get(0) else { continue };
        seen += 1;
        let url = fresh();
        let raw = Raw::new(&url);
        let data = &document["data"];
        let number = |field: &str| data[field].as_u64().context("a number");
        let acquired_at = number("acquiredAtMs")?;
        let ours = backend_at(&url, acquired_at).await;
        let ttl = number("expiresAtMs")? - acquired_at;
        let user_key = vector["key"].as_str().context("a key")?;
        let id = LockId::new(data["lockId"].as_str().context("id")?)?;
        let asked = request(user_key, ttl).with_lock_id(id);
        let asked = asked.with_holder(Holder::new("ours")?.with_note("a note")?);
        let lock = ours.acquire(asked).await?;
        assert!(lock.is_acquired());

        let path = |collection: &str, document: &Json| {
            format!("{collection}/{}", document["id"].as_str().expect("an id"))
        };
        let mut stored = raw.get(&path("locks", document)).await.context("our lock")?;
        // Fields that TypeScript does not have.
        assert_eq!(stored.remove("holder"), Some(text("ours")));
        assert_eq!(stored.remove("note"), Some(text("a note")));
        assert_eq!(stored, fields_of(document, false));
        // Older vectors list the counters of earlier keys as well.
        let own = format!("fence:{}", document["id"].as_str().context("an id")?);
        let counters = vector["fences"].as_array().context("fences")?;
        let counter = counters.iter().find(|counter| counter["id"] == own.as_str());
        let counter = counter.context("the counter of this key")?;
        let stored = raw.get(&path("fence_counters", counter)).await.context("our counter")?;
        assert_eq!(stored, fields_of(counter, false));
    }
    assert!(seen >= 4, "{seen} records");
    Ok(())
}

/// The vectors of the guide's page "The stored records".
#[tokio::test]
async fn ours_are_those_of_the_page() -> Result<()> {
    let vectors = example_record::vectors()?;
    let url = fresh();
    let backend = backend_at(&url, example_record::number(&vectors, "acquiredAtMs")?).await;
    let acquired = example_record::take(&backend).await?;
    let expected = example_record::stored("firestore", &acquired)?;
    let expected = expected.as_object().context("documents")?;
    assert_eq!(expected.len(), 2);
    for (path, data) in expected {
        let stored = Raw::new(&url).get(path).await.with_context(|| path.clone())?;
        assert_eq!(stored, fields_of(&serde_json::json!({ "data": data }), false), "{path}");
    }
    Ok(())
}

/// The TypeScript library fails on these, or writes `a/b/c` into a subcollection.
#[tokio::test]
async fn keys_it_cannot_take_are_ours_alone() -> Result<()> {
    let mut seen = 0;
    for vector in vectors() {
        let (Some(key), true) = (vector["key"].as_str(), vector["locks"].get(0).is_none()) else {
            continue;
        };
        if vector["acquired"] == "locked" {
            continue; // The same key, normalised, was held then.
        }
        seen += 1;
        let url = fresh();
        let raw = Raw::new(&url);
        let ours = backend_with(&url, options()).await;
        let lock = ours.acquire(request(key, 60_000)).await?.acquired().context(key.to_owned())?;
        assert_eq!(raw.ids("locks").await.len(), 1, "{key}");
        assert!(ours.release(ReleaseRequest::new(lock.lock_id)).await?.is_released(), "{key}");
    }
    assert!(seen >= 5, "{seen} keys");
    Ok(())
}
