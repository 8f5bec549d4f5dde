//! The stored records and their changes.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::Value as Json;
use syncguard_redis::authoring::hash_key;
use syncguard_redis::contract::{
    AcquireResult, ExtendRequest, Holder, IsLockedRequest, LookupRequest, ReleaseRequest,
};
use syncguard_redis::inventory::ListRequest;
use syncguard_redis::{
    ErrorCode, ExtendResult, Fence, LockBackend as _, LockId, NotHeld, RedisBackend, RedisOptions,
    ReleaseResult,
};
use syncguard_test_services::redis::RedisServer;
use syncguard_tests::calls::all_at_once;
use syncguard_tests::inventory::inventory;

use crate::redis::support::{
    Raw, backend, backend_with, every_operation, request, shared, stage, stage_with, take,
};

#[tokio::test]
async fn a_lock_is_three_records_of_the_typescript_librarys_shape() -> Result<()> {
    let (backend, prefix, raw) = stage("shape").await;
    let key = "a/\"b\"\\ é\n\u{7f}";
    let lock = take(&backend, key, 60_000).await;

    let name = format!("{prefix}:{key}");
    let index = format!("{prefix}:id:{}", lock.lock_id.expose());
    let counter = format!("{prefix}:fence:{name}");
    let mut expected = vec![name.clone(), index.clone(), counter.clone()];
    expected.sort();
    assert_eq!(raw.names(&prefix).await, expected);

    let record: Json = serde_json::from_str(&raw.text("GET", &[&name]).await.unwrap())?;
    let fields = record.as_object().unwrap();
    assert_eq!(fields.len(), 6);
    assert_eq!(fields["holder"], Holder::this_process().label());
    assert_eq!(fields["key"], key);
    assert_eq!(fields["lockId"], lock.lock_id.expose());
    assert_eq!(fields["fence"], "000000000000001");
    assert_eq!(fields["expiresAtMs"], lock.expires_at.as_millis());
    assert_eq!(fields["acquiredAtMs"], lock.expires_at.as_millis() - 60_000);

    assert_eq!(raw.text("GET", &[&index]).await.unwrap(), name);
    assert_eq!(raw.text("GET", &[&counter]).await.unwrap(), "1");
    for record in [&name, &index] {
        let left = raw.number("PTTL", &[record]).await;
        assert!((60_001..=61_000).contains(&left), "{left}");
    }
    assert_eq!(raw.number("PTTL", &[&counter]).await, -1);

    // A rewrite by extend changes the expiry and nothing else, and moves both TTLs.
    let extend = ExtendRequest::new(lock.lock_id, Duration::from_secs(5))?;
    let ExtendResult::Extended { expires_at } = backend.extend(extend).await? else {
        panic!("held");
    };
    let mut extended = record;
    extended["expiresAtMs"] = expires_at.as_millis().into();
    let stored: Json = serde_json::from_str(&raw.text("GET", &[&name]).await.unwrap())?;
    assert_eq!(stored, extended);
    for record in [&name, &index] {
        let left = raw.number("PTTL", &[record]).await;
        assert!((5_001..=6_000).contains(&left), "{left}");
    }

    assert!(backend.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());
    assert_eq!(raw.names(&prefix).await, *std::slice::from_ref(&counter));
    let next = take(&backend, key, 60_000).await;
    assert_eq!(next.fence.get(), 2);
    assert_eq!(raw.number("PTTL", &[&counter]).await, -1);
    Ok(())
}

/// The script of an extend at a time when the new expiry equals the lock's expiry.
#[tokio::test]
async fn an_extend_to_the_same_expiry_changes_it_and_the_life_of_both_records() -> Result<()> {
    const LIFE: i64 = 61_000;
    let (backend, prefix, raw) = stage("same").await;
    let lock = take(&backend, "k", 60_000).await;
    let (name, id) = (format!("{prefix}:k"), lock.lock_id.expose());
    let index = format!("{prefix}:id:{id}");
    let head = format!("{{\"key\":\"k\",\"lockId\":\"{id}\",\"fence\":\"");
    let script = format!(
        "local time = ARGV[5] - ARGV[3] + 1000\nlocal function extend()\n{}\n{}\n{}\nend\n\
         return {{ extend(), redis.call('PTTL', KEYS[1]), redis.call('PTTL', KEYS[2]) }}",
        include_str!("../../../crates/syncguard-redis/src/lua/extend_usual.lua"),
        include_str!("../../../crates/syncguard-redis/src/lua/record.lua"),
        include_str!("../../../crates/syncguard-redis/src/lua/extend.lua")
    );
    let mut expires_at = i64::try_from(lock.expires_at.as_millis())?;
    let mut longest = [0, 0];
    // If a millisecond ends within the script, less time is left.
    for _ in 0..20 {
        let (expiry, life) = (expires_at.to_string(), LIFE.to_string());
        let arguments = [&script, "2", &index, &name, &expiry, &head, &life, "", &expiry];
        let answer: Vec<i64> = raw.send("EVAL", &arguments).await.convert()?;
        let [extended, of_index, of_lock] = answer[..] else { panic!("{answer:?}") };
        assert_eq!(extended, expires_at + 1);
        let record: Json = serde_json::from_str(&raw.text("GET", &[&name]).await.unwrap())?;
        assert_eq!(record["expiresAtMs"], extended);
        longest = [longest[0].max(of_index), longest[1].max(of_lock)];
        expires_at = extended;
    }
    assert_eq!(longest, [LIFE + 1; 2], "as much longer as the expiry is later");
    Ok(())
}

#[tokio::test]
async fn an_operation_is_one_command_also_after_the_scripts_were_lost() -> Result<()> {
    let mut server = RedisServer::start()?;
    let raw = Raw::connect(&server.url()).await;
    let backend = backend(&server).await;
    every_operation(&backend, "warm").await?;
    let counted = async |raw: &Raw| (raw.calls("evalsha").await, raw.calls("eval").await);

    let (sha, text) = counted(&raw).await;
    for round in 0..10 {
        every_operation(&backend, &format!("counted-{round}")).await?;
    }
    assert_eq!(counted(&raw).await, (sha + 60, text), "one EVALSHA each");

    raw.send("SCRIPT", &["FLUSH"]).await;
    let (sha, text) = counted(&raw).await;
    every_operation(&backend, "flushed").await?;
    every_operation(&backend, "flushed").await?;
    assert_eq!(counted(&raw).await, (sha + 12, text + 6), "one EVAL each, once");

    server.restart()?;
    while backend.acquire(request("waiting", 1)).await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    every_operation(&backend, "restarted").await?;
    Ok(())
}

#[tokio::test]
async fn reserved_keys_are_refused_everywhere_and_others_are_not() -> Result<()> {
    let (backend, prefix, _) = stage("reserved").await;
    let id = LockId::generate()?;
    for key in [format!("fence:{prefix}:x"), format!("id:{}", id.expose())] {
        let acquired = backend.acquire(request(&key, 1000)).await.map(drop);
        let locked = backend.is_locked(IsLockedRequest::new(&key)?).await.map(drop);
        let found = backend.lookup(LookupRequest::by_key(&key)?).await.map(drop);
        for result in [acquired, locked, found] {
            let error = result.unwrap_err();
            assert_eq!(error.code(), ErrorCode::InvalidArgument);
            assert!(!format!("{error} {error:?}").contains(&key));
        }
    }
    for key in ["fence:x", "fence:", "id:x", "id:", "fence:other:x"] {
        let _ = take(&backend, key, 1000).await;
    }
    Ok(())
}

#[tokio::test]
async fn an_exhausted_counter_leaves_nothing_behind() -> Result<()> {
    let (backend, prefix, raw) = stage("exhausted").await;
    let counter = format!("{prefix}:fence:{prefix}:k");
    let (used_up, senseless) =
        ("counter of this key has reached", "the fence counter is not a positive integer");
    for (stored, message) in [
        ("900000000000000", used_up),
        ("999999999999999", used_up),
        ("9007199254740993", used_up),
        ("9223372036854775807", senseless),
        ("-1", senseless),
        ("-7", senseless),
        ("1.5", senseless),
        ("one", senseless),
    ] {
        raw.send("SET", &[&counter, stored]).await;
        let error = backend.acquire(request("k", 1000)).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::Internal, "{stored}");
        assert!(error.message().contains(message), "{stored}: {error}");
        assert!(!error.is_outcome_unknown());
        if ["-7", "one"].contains(&stored) {
            makes_no_sense(&backend).await?;
        }
        assert_eq!(raw.text("GET", &[&counter]).await.unwrap(), stored);
        assert_eq!(raw.names(&prefix).await, *std::slice::from_ref(&counter));
    }
    raw.send("DEL", &[&counter]).await;
    raw.send("LPUSH", &[&counter, "x"]).await;
    let error = backend.acquire(request("k", 1000)).await.unwrap_err();
    assert!(error.message().contains("not a positive integer"), "{error}");
    makes_no_sense(&backend).await?;
    assert_eq!(raw.names(&prefix).await, *std::slice::from_ref(&counter));
    Ok(())
}

/// The only counter is listed as corrupt, and neither read nor raised.
async fn makes_no_sense(backend: &RedisBackend) -> Result<()> {
    let inventory = inventory(backend);
    let page = inventory.list_counters(ListRequest::new()).await?;
    assert_eq!((page.entries.len(), page.corrupt.len()), (0, 1));
    let read = inventory.fence_counter("k").await.map(drop).unwrap_err();
    let raised = inventory.raise_counter("k", Fence::new(9)?).await.map(drop).unwrap_err();
    assert_eq!([read.code(), raised.code()], [ErrorCode::Internal; 2]);
    Ok(())
}

pub(crate) const ID: &str = "F-jSW78sCJhFIV6GYPa1lQ";

/// A record of the key `k` in which one field has this value, or is missing if the value is empty.
pub(crate) fn record_with(field: &str, value: &str) -> String {
    let id = format!("\"{ID}\"");
    let fields = [
        ("key", "\"k\""),
        ("lockId", &id),
        ("fence", "\"000000000000001\""),
        ("acquiredAtMs", "1"),
        ("expiresAtMs", "9999999999999"),
    ];
    let values = fields.map(|(name, own)| (name, if name == field { value } else { own }));
    let present = values.iter().filter(|(_, value)| !value.is_empty());
    let texts: Vec<String> = present.map(|(name, value)| format!("\"{name}\":{value}")).collect();
    format!("{{{}}}", texts.join(","))
}

/// Records that no library wrote, and what their errors say.
pub(crate) fn corrupt() -> Vec<(String, &'static str)> {
    let whole = record_with("", "");
    let cut = whole.trim_end_matches('}');
    let texts =
        ["", "nonsense", "17", "null", cut].map(|text| (text.to_owned(), "not a JSON object"));
    let structures = ["[1,2]", "{}"].map(|text| (text.to_owned(), "malformed"));
    let fields = [
        ("key", ""),
        ("lockId", ""),
        ("lockId", "\"short\""),
        ("lockId", "\"F-jSW78sCJhFIV6GYPa1l!\""),
        ("fence", "\"1\""),
        ("fence", "1"),
        ("fence", "\"00000000000000x\""),
        ("acquiredAtMs", "\"1\""),
        ("expiresAtMs", "null"),
        ("expiresAtMs", ""),
    ];
    let fields = fields.map(|(field, value)| (record_with(field, value), "malformed"));
    let times = [
        ("expiresAtMs", "1e300"),
        ("expiresAtMs", "-5"),
        ("expiresAtMs", "1.5"),
        ("expiresAtMs", "nan"),
        ("acquiredAtMs", "9007199254740992"),
        ("acquiredAtMs", "-5"),
        ("expiresAtMs", "99999999999999999999"),
    ];
    let times = times.map(|(field, value)| (record_with(field, value), "makes no sense"));
    texts.into_iter().chain(structures).chain(fields).chain(times).collect()
}

#[tokio::test]
async fn a_corrupt_record_is_an_error_and_stays_as_it_is() -> Result<()> {
    let options = RedisOptions::new().with_cleanup_in_is_locked(true);
    let (backend, prefix, raw) = stage_with("corrupt", options).await;
    let id = LockId::new(ID)?;
    let (name, index) = (format!("{prefix}:k"), format!("{prefix}:id:{}", id.expose()));
    raw.send("SET", &[&index, &name]).await;
    for (record, problem) in corrupt() {
        raw.send("SET", &[&name, &record]).await;
        for (operation, result) in all_at_once(&backend, "k", id).await.into_iter().enumerate() {
            let error = result.expect_err(&record);
            assert_eq!(error.code(), ErrorCode::Internal, "{record}");
            assert!(error.message().contains(problem), "{operation} {record}: {error}");
            assert!(error.message().contains(&hash_key(&name).to_string()), "{error}");
            assert!(!format!("{error} {error:?}").contains(&name));
        }
        assert_eq!(raw.text("GET", &[&name]).await.unwrap(), record);
        assert_eq!(raw.names(&prefix).await, [index.clone(), name.clone()], "{record}");
    }

    raw.send("DEL", &[&name]).await;
    raw.send("HSET", &[&name, "a", "b"]).await;
    for result in all_at_once(&backend, "k", id).await {
        let error = result.unwrap_err();
        assert!(error.message().contains("not a string"), "{error}");
    }
    assert_eq!(raw.text("TYPE", &[&name]).await.unwrap(), "hash");

    // The index entry itself.
    raw.send("DEL", &[&index]).await;
    raw.send("LPUSH", &[&index, "x"]).await;
    let error = backend.release(ReleaseRequest::new(id)).await.unwrap_err();
    assert!(error.message().contains(&hash_key(&index).to_string()), "{error}");
    Ok(())
}

/// The record says that it is the lock of another key, or of none. No look-up may take it for that.
#[tokio::test]
async fn a_record_under_the_name_of_another_key_is_corrupt() -> Result<()> {
    let (backend, prefix, raw) = stage("bad-key").await;
    let lock = take(&backend, "victim", 60_000).await;
    let name = format!("{prefix}:victim");
    let record = raw.text("GET", &[&name]).await.unwrap();
    let long = "k".repeat(513);
    for (key, says) in
        [("other", "that of another record"), (r"a\u0000b", "corrupt"), (&long, "corrupt")]
    {
        let record = record.replace("\"victim\"", &format!("\"{key}\""));
        raw.send("SET", &[&name, &record]).await;
        for request in [LookupRequest::by_key("victim")?, LookupRequest::by_lock_id(lock.lock_id)] {
            let error = backend.lookup(request).await.unwrap_err();
            assert_eq!(error.code(), ErrorCode::Internal);
            assert!(error.message().contains(says), "{key}: {error}");
        }
        let page = inventory(&backend).list_locks(ListRequest::new()).await?;
        assert_eq!((page.entries.len(), page.corrupt.len()), (0, 1), "{key}");
        // The record is a lock all the same: nobody gets the key.
        assert!(backend.acquire(request("victim", 60_000)).await?.is_busy(), "{key}");
    }
    Ok(())
}

#[tokio::test]
async fn an_id_finds_only_its_own_lock() -> Result<()> {
    let (backend, prefix, raw) = stage("stale").await;
    let lock = take(&backend, "k", 60_000).await;
    // An index entry that outlived its lock, and an index entry without a target.
    for (target, id) in
        [(format!("{prefix}:k"), LockId::generate()?), ("gone".to_owned(), LockId::generate()?)]
    {
        raw.send("SET", &[&format!("{prefix}:id:{}", id.expose()), &target]).await;
        let not_found = ReleaseResult::NotHeld(NotHeld::NotFound);
        assert_eq!(backend.release(ReleaseRequest::new(id)).await?, not_found);
        let extend = ExtendRequest::new(id, Duration::from_secs(1))?;
        assert_eq!(backend.extend(extend).await?, ExtendResult::NotHeld(NotHeld::NotFound));
        assert!(backend.lookup(LookupRequest::by_lock_id(id)).await?.is_none());
    }
    assert!(backend.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());
    Ok(())
}

#[tokio::test]
async fn expired_is_told_from_not_found_and_clearing_spares_counters() -> Result<()> {
    let (plain, prefix, raw) = stage("expired").await;
    let options = RedisOptions::new().with_key_prefix(&prefix).with_cleanup_in_is_locked(true);
    let clearing = backend_with(shared(), options).await;
    let lock = take(&plain, "k", 60_000).await;
    let name = format!("{prefix}:k");
    let age = async |by: u64| {
        let mut record: Json =
            serde_json::from_str(&raw.text("GET", &[&name]).await.unwrap()).unwrap();
        let time: Vec<u64> = raw.send("TIME", &[]).await.convert().unwrap();
        record["expiresAtMs"] = (time[0] * 1000 + time[1] / 1000 - by).into();
        raw.send("SET", &[&name, &record.to_string()]).await;
    };

    age(1000).await;
    let release = || ReleaseRequest::new(lock.lock_id);
    assert_eq!(plain.release(release()).await?, ReleaseResult::NotHeld(NotHeld::Expired));
    let extend = ExtendRequest::new(lock.lock_id, Duration::from_secs(1))?;
    assert_eq!(plain.extend(extend).await?, ExtendResult::NotHeld(NotHeld::Expired));
    assert!(plain.lookup(LookupRequest::by_lock_id(lock.lock_id)).await?.is_none());

    let asked = IsLockedRequest::new("k")?;
    let record = raw.text("GET", &[&name]).await.unwrap();
    loop {
        let begun = Instant::now();
        age(2500).await;
        assert!(!clearing.is_locked(asked.clone()).await?);
        if begun.elapsed() < Duration::from_millis(450) {
            break;
        }
        // Half a second was left, so on a busy machine the lock may be cleared rightly. From the beginning:
        raw.send("SET", &[&name, &record]).await;
        raw.send("SET", &[&format!("{prefix}:id:{}", lock.lock_id.expose()), &name]).await;
    }
    assert_eq!(raw.names(&prefix).await.len(), 3, "too early to clear");
    age(3100).await;
    assert!(!plain.is_locked(asked.clone()).await?);
    assert_eq!(raw.names(&prefix).await.len(), 3, "off by default");
    assert!(!clearing.is_locked(asked).await?);
    assert_eq!(raw.names(&prefix).await, [format!("{prefix}:fence:{name}")]);
    assert_eq!(take(&plain, "k", 1000).await.fence.get(), 2);
    Ok(())
}

#[tokio::test]
async fn a_lock_id_of_another_key_is_refused_and_writes_nothing() -> Result<()> {
    let (backend, prefix, raw) = stage("twice").await;
    let lock = take(&backend, "a", 60_000).await;
    let before = raw.names(&prefix).await;
    let error = backend.acquire(request("b", 1000).with_lock_id(lock.lock_id)).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidArgument);
    let mut expected = before.clone();
    expected.push(format!("{prefix}:fence:{prefix}:b"));
    expected.sort();
    // The counter was reset to zero, so it only shows that the key was tried.
    assert_eq!(raw.names(&prefix).await, expected);
    assert_eq!(take(&backend, "b", 1000).await.fence.get(), 1);

    // The same request for its own key is no conflict, also if the lock itself is gone.
    raw.send("DEL", &[&format!("{prefix}:a")]).await;
    let again = backend.acquire(request("a", 600_000).with_lock_id(lock.lock_id)).await?;
    assert!(matches!(again, AcquireResult::Acquired(lock) if lock.fence.get() == 2));
    let index = format!("{prefix}:id:{}", lock.lock_id.expose());
    assert!(raw.number("PTTL", &[&index]).await > 500_000, "as long as the new lock");
    Ok(())
}
