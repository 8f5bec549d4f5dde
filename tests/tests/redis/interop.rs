//! Records of the TypeScript library: we can read, extend and release them, and our records look the same.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use serde_json::Value as Json;
use syncguard_redis::contract::{
    AcquireRequest, AcquireResult, ExtendRequest, Holder, IsLockedRequest, LookupRequest,
    ReleaseRequest, WatchRequest,
};
use syncguard_redis::inventory::ListRequest;
use syncguard_redis::{ErrorCode, Key, LockBackend as _, LockId, RedisOptions};
use syncguard_test_services::redis::RedisServer;
use syncguard_tests::example_record;

use crate::redis::support::{Raw, backend_with};

/// The contents of `vectors/typescript.json` for one acquisition.
struct Sample {
    prefix: String,
    key: String,
    lock_id: LockId,
    expires_at: u64,
    fence: String,
    stored: BTreeMap<String, String>,
}

fn samples() -> Vec<Sample> {
    let text = include_str!("../../../crates/syncguard-core/vectors/typescript.json");
    let all: Json = serde_json::from_str(text).expect("JSON");
    let texts = |object: &Json, later: u64| {
        let pairs = object.as_object().expect("an object").iter();
        let text = |value: &Json| moved(value.as_str().expect("text"), later);
        pairs.map(|(name, value)| (name.clone(), text(value))).collect()
    };
    // The samples have expired; shifted by this much, they were written an instant ago.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_millis();
    let later = u64::try_from(now).expect("a time")
        - all["redis"][0]["acquired"]["expiresAtMs"].as_u64().expect("a time")
        + 3_600_000;
    let sample = |sample: &Json| Sample {
        prefix: sample["keyPrefix"].as_str().expect("a prefix").to_owned(),
        key: sample["key"].as_str().expect("a key").to_owned(),
        lock_id: LockId::new(sample["acquired"]["lockId"].as_str().expect("an id")).expect("an id"),
        expires_at: sample["acquired"]["expiresAtMs"].as_u64().expect("a time") + later,
        fence: sample["acquired"]["fence"].as_str().expect("a fence").to_owned(),
        stored: texts(&sample["stored"], later),
    };
    all["redis"].as_array().expect("samples").iter().map(sample).collect()
}

/// A record with shifted times, and no other change.
fn moved(text: &str, later: u64) -> String {
    let mut text = text.to_owned();
    for field in ["\"acquiredAtMs\":", "\"expiresAtMs\":"] {
        if let Some(at) = text.find(field) {
            let at = at + field.len();
            let digits = text[at..].chars().take_while(char::is_ascii_digit).count();
            let time: u64 = text[at..at + digits].parse().expect("a time");
            text.replace_range(at..at + digits, &(time + later).to_string());
        }
    }
    text
}

/// The record of the lock among the stored records.
fn lock_of(stored: &BTreeMap<String, String>) -> (&str, Json) {
    let lock = stored.iter().find(|(_, text)| text.starts_with("{\"")).expect("a lock");
    (lock.0, serde_json::from_str(lock.1).expect("JSON"))
}

#[tokio::test]
async fn their_records_are_read_extended_and_released() -> Result<()> {
    let server = RedisServer::start()?;
    let raw = Raw::connect(&server.url()).await;
    let mut count = 0;
    for sample in samples() {
        raw.send("FLUSHALL", &[]).await;
        let options = RedisOptions::new().with_key_prefix(&sample.prefix);
        let backend = backend_with(&server, options).await;
        for (name, text) in &sample.stored {
            raw.send("SET", &[name, text]).await;
        }
        let (name, record) = lock_of(&sample.stored);

        assert!(backend.is_locked(IsLockedRequest::new(&sample.key)?).await?);
        let contender = AcquireRequest::new(&sample.key, Duration::from_secs(9))?;
        let AcquireResult::Busy(refused) = backend.acquire(contender).await? else {
            panic!("held");
        };
        assert!(refused.is_polled && refused.free_within.is_some());
        let watch = backend.watch(WatchRequest::new(Key::new(&sample.key)?)).await;
        assert!(watch.expect("a watch").is_polled);
        for lookup in
            [LookupRequest::by_key(&sample.key)?, LookupRequest::by_lock_id(sample.lock_id)]
        {
            let found = backend.lookup(lookup).await?.expect("their lock");
            assert_eq!(found.key, Key::new(&sample.key)?);
            assert_eq!(found.lock_id, sample.lock_id);
            assert_eq!(found.holder, None);
            assert_eq!(found.fence.to_string(), sample.fence);
            assert_eq!(found.expires_at.as_millis(), sample.expires_at);
            assert_eq!(found.acquired_at.as_millis(), record["acquiredAtMs"]);
        }
        // We repeat the TypeScript library's acquire: the answer is its lock.
        let again = AcquireRequest::new(&sample.key, Duration::from_secs(9))?;
        let again = backend.acquire(again.with_lock_id(sample.lock_id)).await?;
        assert_eq!(again.acquired().unwrap().expires_at.as_millis(), sample.expires_at);

        let extend = ExtendRequest::new(sample.lock_id, Duration::from_secs(60))?;
        assert!(backend.extend(extend).await?.is_extended());
        let mut after: Json = serde_json::from_str(&raw.text("GET", &[name]).await.unwrap())?;
        assert!((60_001..=61_000).contains(&raw.number("PTTL", &[name]).await));
        after["expiresAtMs"] = record["expiresAtMs"].clone();
        assert_eq!(after, record, "only the expiry changes");

        assert!(backend.release(ReleaseRequest::new(sample.lock_id)).await?.is_released());
        let counter: Vec<_> = sample
            .stored
            .keys()
            .filter(|name| *name != lock_of(&sample.stored).0 && sample.stored[*name] == "1")
            .cloned()
            .collect();
        assert_eq!(raw.names("").await, counter, "the counter and nothing else stays");
        let next = AcquireRequest::new(&sample.key, Duration::from_secs(9))?;
        let next = backend.acquire(next).await?.acquired().unwrap();
        assert_eq!(next.fence.get(), sample.fence.parse::<u64>()? + 1);
        count += 1;
    }
    assert_eq!(count, 20);
    Ok(())
}

/// All records under one prefix together.
#[tokio::test]
async fn their_records_are_listed() -> Result<()> {
    let server = RedisServer::start()?;
    let raw = Raw::connect(&server.url()).await;
    let mut prefixes = BTreeMap::<String, BTreeMap<String, Sample>>::new();
    for sample in samples() {
        // A later record of the same key was written after the former was released.
        let key = Key::new(&sample.key)?.expose().to_owned();
        prefixes.entry(sample.prefix.clone()).or_default().insert(key, sample);
    }
    for (prefix, samples) in prefixes {
        raw.send("FLUSHALL", &[]).await;
        for (name, text) in samples.values().flat_map(|sample| &sample.stored) {
            raw.send("SET", &[name, text]).await;
        }
        let backend = backend_with(&server, RedisOptions::new().with_key_prefix(&prefix)).await;
        let page =
            backend.inventory().expect("an inventory").list_locks(ListRequest::new()).await?;
        assert!(page.corrupt.is_empty() && page.next.is_none());
        let mut listed = page.entries;
        // A long key is listed in the order of its hash.
        listed.sort_by(|one, other| one.key.expose().cmp(other.key.expose()));
        let keys: Vec<_> = listed.iter().map(|lock| lock.key.expose()).collect();
        assert_eq!(keys, samples.keys().collect::<Vec<_>>());
        for (lock, sample) in listed.iter().zip(samples.values()) {
            assert_eq!(lock.lock_id, sample.lock_id);
            assert_eq!(lock.fence.to_string(), sample.fence);
            assert_eq!(lock.expires_at.as_millis(), sample.expires_at);
        }
        let counters =
            backend.inventory().expect("an inventory").list_counters(ListRequest::new()).await;
        if prefix.len() > 227 {
            // Counters are under hashes then, which do not reveal the key.
            assert_eq!(counters.unwrap_err().code(), ErrorCode::InvalidArgument);
            continue;
        }
        let counters = counters?;
        assert!(counters.corrupt.is_empty());
        let mut counted: Vec<_> = counters.entries.iter().map(|one| one.key.expose()).collect();
        counted.sort_unstable();
        assert_eq!(counted, samples.keys().collect::<Vec<_>>());
    }
    Ok(())
}

#[tokio::test]
async fn ours_have_their_names_and_their_fields() -> Result<()> {
    let server = RedisServer::start()?;
    let raw = Raw::connect(&server.url()).await;
    for sample in samples() {
        raw.send("FLUSHALL", &[]).await;
        let options = RedisOptions::new().with_key_prefix(&sample.prefix);
        let backend = backend_with(&server, options).await;
        let request = AcquireRequest::new(&sample.key, Duration::from_secs(3600))?
            .with_holder(Holder::new("ours")?);
        let acquired = backend.acquire(request.with_lock_id(sample.lock_id)).await?;
        let acquired = acquired.acquired().unwrap();

        let theirs: BTreeSet<_> = sample.stored.keys().cloned().collect();
        let ours: BTreeSet<_> = raw.names("").await.into_iter().collect();
        assert_eq!(ours, theirs);
        let (name, record) = lock_of(&sample.stored);
        for (other, text) in sample.stored.iter().filter(|(other, _)| *other != name) {
            assert_eq!(raw.text("GET", &[other]).await.as_ref(), Some(text));
        }
        let text = raw.text("GET", &[name]).await.unwrap();
        // Fields that TypeScript does not have come last.
        let text = text.strip_suffix(",\"holder\":\"ours\"}").unwrap().to_owned() + "}";
        let mut ours: Json = serde_json::from_str(&text)?;
        assert_eq!(ours["expiresAtMs"], acquired.expires_at.as_millis());
        for time in ["acquiredAtMs", "expiresAtMs"] {
            assert!(ours[time].is_u64());
            ours[time] = record[time].clone();
        }
        assert_eq!(ours, record);
        // Equal to the byte, unless cjson escapes characters without need.
        if !lock_of(&sample.stored).1["key"].as_str().unwrap().contains('/') {
            let digits = |text: &str| text.split(char::is_numeric).collect::<String>();
            assert_eq!(digits(&text), digits(&sample.stored[name]));
        }
    }
    Ok(())
}

/// The vectors of the page `vectors/records.md`.
#[tokio::test]
async fn ours_are_those_of_the_page() -> Result<()> {
    let server = RedisServer::start()?;
    let raw = Raw::connect(&server.url()).await;
    let backend = backend_with(&server, RedisOptions::new()).await;
    let acquired = example_record::take(&backend).await?;
    let expected = example_record::stored("redis", &acquired)?;
    let mut stored = BTreeMap::new();
    for name in raw.names("").await {
        let text = raw.text("GET", &[&name]).await;
        stored.insert(name, text);
    }
    assert_eq!(serde_json::to_value(stored)?, expected);
    Ok(())
}
