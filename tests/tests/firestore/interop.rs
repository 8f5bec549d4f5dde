//! Records of the TypeScript library, and ours.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use serde_json::Value as Json;
use syncguard_firestore::contract::{
    AcquireResult, ExtendRequest, Holder, LookupRequest, ReleaseRequest,
};
use syncguard_firestore::gcloud_sdk::google::firestore::v1::value::ValueType;
use syncguard_firestore::inventory::ListRequest;
use syncguard_firestore::{Fence, LockBackend as _, LockId, LockInfo};
use syncguard_tests::example_record::{self, number, text as string};
use syncguard_tests::inventory::{counters, inventory};

use crate::firestore::support::{Raw, backend, fresh, request, text};

/// The part of `vectors/typescript.json` for Firestore: records that SyncGuard 2.5 wrote through Node's SDK. The locks have
/// expired, so they get times as if they were written an instant ago.
fn vectors() -> Vec<Json> {
    let mut all: Json = serde_json::from_str(include_str!(
        "../../../crates/syncguard-core/vectors/typescript.json"
    ))
    .expect("JSON");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_millis();
    let vectors = all["firestore"].as_array_mut().expect("records");
    for data in vectors.iter_mut().filter_map(|vector| vector.pointer_mut("/locks/0/data")) {
        let ttl = number(data, "expiresAtMs").expect("a time")
            - number(data, "acquiredAtMs").expect("a time");
        set_times(data, u64::try_from(now).expect("a time") + ttl, ttl);
    }
    vectors.clone()
}

fn set_times(data: &mut Json, expires_at: u64, ttl: u64) {
    data["expiresAtMs"] = expires_at.into();
    data["acquiredAtMs"] = (expires_at - ttl).into();
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
    raw.set(&path, fields_of(document, doubles)).await;
}

fn is_theirs(lock: &LockInfo, data: &Json) -> Result<()> {
    assert_eq!(lock.key.expose(), string(data, "key")?);
    assert_eq!(lock.lock_id.expose(), string(data, "lockId")?);
    assert_eq!(lock.holder, None);
    assert_eq!(lock.acquired_at.as_millis(), number(data, "acquiredAtMs")?);
    assert_eq!(lock.expires_at.as_millis(), number(data, "expiresAtMs")?);
    assert_eq!(lock.fence.to_string(), string(data, "fence")?);
    Ok(())
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
            let id = LockId::new(string(data, "lockId")?)?;
            let ours = backend(&url).await;

            // Under the user's key, which was normalised when it was stored.
            let user_key = string(&vector, "key")?;
            for lookup in [LookupRequest::by_key(user_key)?, LookupRequest::by_lock_id(id)] {
                is_theirs(&ours.lookup(lookup).await?.context("a live lock")?, data)?;
            }
            let mut page = inventory(&ours).list_locks(ListRequest::new()).await?;
            is_theirs(&page.entries.pop().context("their lock")?, data)?;
            assert!(page.entries.is_empty() && page.corrupt.is_empty());
            let counted = vector["fences"].as_array().into_iter().flatten();
            let counted: Result<BTreeSet<_>> = counted
                .map(|counter| Ok(string(&counter["data"], "keyDebug")?.to_owned()))
                .collect();
            let (listed, corrupt) = counters(&ours, ListRequest::new()).await?;
            assert_eq!((BTreeSet::from_iter(listed), corrupt), (counted?, 0));
            let AcquireResult::Busy(refused) = ours.acquire(request(user_key, 1000)).await? else {
                panic!("held");
            };
            assert!(refused.is_polled);
            let extend = ExtendRequest::new(id, Duration::from_secs(7200))?;
            assert!(ours.extend(extend).await?.is_extended());
            assert!(ours.release(ReleaseRequest::new(id)).await?.is_released());
            let next = ours.acquire(request(user_key, 1000)).await?.acquired().context("free")?;
            let before: Fence = string(data, "fence")?.parse()?;
            assert_eq!(next.fence, before.next()?);
        }
    }
    assert!(seen >= 8, "{seen} records");
    Ok(())
}

#[tokio::test]
async fn ours_are_what_theirs_are() -> Result<()> {
    let mut seen = 0;
    for mut vector in vectors() {
        let Some(mut document) = vector["locks"].get_mut(0).map(Json::take) else { continue };
        seen += 1;
        let url = fresh();
        let (raw, ours) = (Raw::new(&url), backend(&url).await);
        let data = &mut document["data"];
        let ttl = number(data, "expiresAtMs")? - number(data, "acquiredAtMs")?;
        let asked = request(string(&vector, "key")?, ttl);
        let asked = asked.with_lock_id(LockId::new(string(data, "lockId")?)?);
        let asked = asked.with_holder(Holder::new("ours")?.with_note("a note")?);
        let lock = ours.acquire(asked).await?.acquired().context("a free key")?;
        set_times(data, lock.expires_at.as_millis(), ttl);

        let id = string(&document, "id")?;
        let mut stored = raw.get(&format!("locks/{id}")).await.context("our lock")?;
        // Fields that TypeScript does not have.
        assert_eq!(stored.remove("holder"), Some(text("ours")));
        assert_eq!(stored.remove("note"), Some(text("a note")));
        assert_eq!(stored, fields_of(&document, false));
        // Older vectors list the counters of earlier keys as well.
        let own = format!("fence:{id}");
        let counters = vector["fences"].as_array().context("fences")?;
        let counter = counters.iter().find(|counter| counter["id"] == own.as_str());
        let stored = raw.get(&format!("fence_counters/{own}")).await.context("our counter")?;
        assert_eq!(stored, fields_of(counter.context("the counter of this key")?, false));
    }
    assert!(seen >= 4, "{seen} records");
    Ok(())
}

/// The vectors of the page `vectors/records.md`.
#[tokio::test]
async fn ours_are_those_of_the_page() -> Result<()> {
    let url = fresh();
    let acquired = example_record::take(&backend(&url).await).await?;
    let expected = example_record::stored("firestore", &acquired)?;
    let expected = expected.as_object().context("documents")?;
    assert_eq!(expected.len(), 2);
    for (path, data) in expected {
        let stored = Raw::new(&url).get(path).await.with_context(|| path.clone())?;
        assert_eq!(stored, fields_of(&serde_json::json!({ "data": data }), false), "{path}");
    }
    Ok(())
}
