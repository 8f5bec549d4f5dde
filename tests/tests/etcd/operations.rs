//! What operations cost, what they leave in the store, and what they make of strange records.

use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::Value;
use syncguard_etcd::authoring::recipes::FenceWindow;
use syncguard_etcd::contract::{ExtendRequest, IsLockedRequest, LookupRequest, ReleaseRequest};
use syncguard_etcd::inventory::ListRequest;
use syncguard_etcd::{
    ErrorCode, EtcdBackend, ExtendResult, Fence, Key, LockBackend as _, LockId, NotHeld,
    ReleaseResult,
};
use syncguard_test_services::etcd::EtcdCluster;
use syncguard_tests::calls::until;
use syncguard_tests::example_record;

use crate::etcd::support::{
    Raw, backend, backend_at, backend_with, fresh, options, request, shared, take,
};

const MINUTE: Duration = Duration::from_secs(60);

async fn release(backend: &EtcdBackend, lock_id: LockId) -> Result<ReleaseResult> {
    Ok(backend.release(ReleaseRequest::new(lock_id)).await?)
}

async fn extend(backend: &EtcdBackend, lock_id: LockId) -> Result<bool> {
    Ok(backend.extend(ExtendRequest::new(lock_id, MINUTE)?).await?.is_extended())
}

/// Counts the calls for records, and what the members had to agree on.
struct Costs<'c>(&'c EtcdCluster, (u64, u64));

impl Costs<'_> {
    /// Calls and proposals since the last question.
    fn since(&mut self) -> (u64, u64) {
        let status = self.0.post(0, "maintenance/status", "{}").expect("a status");
        let status: Value = serde_json::from_str(&status).expect("JSON");
        let index = status["raftIndex"].as_str().expect("an index").parse().expect("a number");
        let now = (self.0.calls(0).expect("a count"), index);
        let (calls, proposals) = std::mem::replace(&mut self.1, now);
        (now.0 - calls, now.1 - proposals)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_operation_costs_what_the_documentation_says() -> Result<()> {
    let cluster = EtcdCluster::start(1)?;
    for (remembered, to_change, to_acquire) in [(10, (1, 1), (1, 1)), (0, (3, 1), (2, 1))] {
        let options = options().with_remembered_locks(remembered);
        let ours = backend_at(cluster.port(0), "p", options).await;
        let mut costs = Costs(&cluster, (0, 0));
        costs.since();
        let lock = take(&ours, "k", 60_000).await;
        assert_eq!(costs.since(), (2, 1), "the first acquire");
        assert!(!ours.acquire(request("k", 60_000)).await?.is_acquired());
        assert_eq!(costs.since(), (1, 0), "a refused acquire writes nothing");
        for _ in 0..2 {
            assert!(extend(&ours, lock.lock_id).await?);
            assert_eq!(costs.since(), to_change, "extend");
        }
        assert!(ours.is_locked(IsLockedRequest::new("k")?).await?);
        assert_eq!(costs.since(), (1, 0), "is_locked");
        assert!(ours.lookup(LookupRequest::by_key("k")?).await?.is_some());
        assert_eq!(costs.since(), (1, 0), "lookup by key");
        let by_id = LookupRequest::by_lock_id(lock.lock_id);
        assert!(ours.lookup(by_id.clone()).await?.is_some());
        assert_eq!(costs.since(), (2, 0), "lookup by lock id");
        assert!(ours.lookup(by_id.with_key_hint(Key::new("k")?)).await?.is_some());
        assert_eq!(costs.since(), (1, 0), "lookup by lock id with the key");
        assert_eq!(release(&ours, lock.lock_id).await?, ReleaseResult::Released);
        assert_eq!(costs.since(), to_change, "release");
        assert!(!release(&ours, lock.lock_id).await?.is_released());
        assert_eq!(costs.since(), (1, 0), "a release of nothing");
        let lock = take(&ours, "k", 60_000).await;
        assert_eq!(costs.since(), to_acquire, "the next acquire");
        let hinted = ReleaseRequest::new(lock.lock_id).with_key_hint(Key::new("k")?);
        assert!(ours.release(hinted).await?.is_released());
        assert_eq!(costs.since(), if remembered > 0 { (1, 1) } else { (2, 1) }, "with the key");
    }
    Ok(())
}

#[tokio::test]
async fn a_lock_leaves_nothing_but_its_counter() -> Result<()> {
    let prefix = fresh();
    let (ours, raw) = (backend(&prefix).await, Raw(shared()));
    let lock = take(&ours, "a/b", 60_000).await;
    let index = format!("{prefix}/i/{}", lock.lock_id.expose());
    assert_eq!(raw.get(&index).as_deref(), Some("a/b"));
    let stored: Value = serde_json::from_str(&raw.get(&format!("{prefix}/l/a/b")).context("it")?)?;
    assert_eq!(stored["lockId"], lock.lock_id.expose());
    assert_eq!(stored["fence"], "000000000000001");
    assert!(release(&ours, lock.lock_id).await?.is_released());
    assert_eq!(raw.names(&prefix), [format!("{prefix}/f/a/b")]);

    // A takeover deletes the index entry of the expired lock, and an expired lock is cleared by its key.
    let cleaning = backend_with(&prefix, options().with_cleanup_in_is_locked(true)).await;
    let _expired = take(&ours, "a/b", 1).await;
    until("expired", async || ours.acquire(request("a/b", 1)).await.unwrap().is_acquired()).await;
    until("cleared", async || {
        let _ = cleaning.is_locked(IsLockedRequest::new("a/b").unwrap()).await;
        raw.names(&prefix) == [format!("{prefix}/f/a/b")]
    })
    .await;
    Ok(())
}

/// The vectors of the page `vectors/records.md`.
#[tokio::test]
async fn ours_are_those_of_the_page() -> Result<()> {
    let prefix = fresh();
    let acquired = example_record::take(&backend(&prefix).await).await?;
    let expected = example_record::stored("etcd", &acquired)?;
    let expected = expected.as_object().context("records")?;
    assert_eq!(expected.len(), 3);
    for (name, value) in expected {
        let name = name.replacen("syncguard", &prefix, 1);
        assert_eq!(Raw(shared()).get(&name).as_deref(), value.as_str(), "{name}");
    }
    Ok(())
}

/// What this backend remembers wrongly costs a refused transaction, and changes no answer.
#[tokio::test]
async fn what_is_remembered_wrongly_is_looked_up() -> Result<()> {
    let prefix = fresh();
    let (ours, other) = (backend(&prefix).await, backend(&prefix).await);
    let lock = take(&ours, "k", 60_000).await;
    assert!(extend(&other, lock.lock_id).await?);
    assert!(extend(&ours, lock.lock_id).await?);
    assert!(extend(&other, lock.lock_id).await?);
    assert!(release(&ours, lock.lock_id).await?.is_released());

    // Ours believes that it left the key free.
    let next = take(&other, "k", 60_000).await;
    assert!(ours.acquire(request("k", 1)).await?.is_busy());
    assert_eq!(release(&ours, lock.lock_id).await?, ReleaseResult::NotHeld(NotHeld::NotFound));
    assert!(release(&other, next.lock_id).await?.is_released());
    // The counter has moved: of the other lock, and by hand.
    assert_eq!(take(&other, "k", 1).await.fence.get(), 3);
    let key = Key::new("k")?;
    let inventory = other.inventory().context("an inventory")?;
    let at_least = Fence::new(70)?;
    assert_eq!(inventory.raise_counter(key.clone(), at_least).await?, at_least);
    until("free", async || ours.acquire(request("k", 1)).await.unwrap().is_acquired()).await;
    assert_eq!(inventory.fence_counter(key).await?, Some(Fence::new(71)?));
    Ok(())
}

/// As after a restored snapshot: the revision may be the same, but the record is another one.
#[tokio::test]
async fn a_record_of_another_value_is_another_lock() -> Result<()> {
    let prefix = fresh();
    let (ours, raw) = (backend(&prefix).await, Raw(shared()));
    let lock = take(&ours, "k", 60_000).await;
    let name = format!("{prefix}/l/k");
    let stored = raw.get(&name).context("a lock")?;
    let theirs = LockId::generate()?;
    raw.put(&name, &stored.replace(lock.lock_id.expose(), theirs.expose()));
    assert!(!release(&ours, lock.lock_id).await?.is_released());
    let extended = ours.extend(ExtendRequest::new(lock.lock_id, MINUTE)?).await?;
    assert_eq!(extended, ExtendResult::NotHeld(NotHeld::NotFound));
    assert!(raw.get(&name).is_some());
    Ok(())
}

#[tokio::test]
async fn a_lock_id_of_another_key_is_refused() -> Result<()> {
    let prefix = fresh();
    let (ours, other) = (backend(&prefix).await, backend(&prefix).await);
    let lock = take(&ours, "k", 60_000).await;
    let again = || request("k2", 60_000).with_lock_id(lock.lock_id);
    let refused = other.acquire(again()).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::InvalidArgument);
    // The same request for the same key is answered with the lock.
    let same = other.acquire(request("k", 60_000).with_lock_id(lock.lock_id)).await?;
    let same = same.acquired().context("the same lock")?;
    assert_eq!((same.fence, same.expires_at), (lock.fence, lock.expires_at));
    assert!(release(&other, lock.lock_id).await?.is_released());
    assert!(other.acquire(again()).await?.is_acquired());
    Ok(())
}

#[tokio::test]
async fn corrupt_records_are_errors_that_show_nothing() -> Result<()> {
    let prefix = fresh();
    let (ours, raw) = (backend(&prefix).await, Raw(shared()));
    raw.put(&format!("{prefix}/f/secret-counter"), "seven");
    raw.put(&format!("{prefix}/l/secret-lock"), "{}");
    let id = LockId::generate()?;
    raw.put(&format!("{prefix}/i/{}", id.expose()), "secret\0");
    let by_id = LookupRequest::by_lock_id(id);
    let window = FenceWindow::new(Fence::new(5)?, Fence::new(5)?)?;
    for error in [
        ours.acquire(request("secret-counter", 1)).await.unwrap_err(),
        ours.acquire(request("secret-counter", 1).with_fence_window(window)).await.unwrap_err(),
        ours.acquire(request("secret-lock", 1)).await.unwrap_err(),
        ours.is_locked(IsLockedRequest::new("secret-lock")?).await.unwrap_err(),
        ours.lookup(by_id).await.unwrap_err(),
        ours.release(ReleaseRequest::new(id)).await.unwrap_err(),
    ] {
        assert_eq!(error.code(), ErrorCode::Internal);
        assert!(!error.is_outcome_unknown() && !format!("{error:?}").contains("secret"));
    }
    let inventory = ours.inventory().context("an inventory")?;
    assert_eq!(inventory.list_locks(ListRequest::new()).await?.corrupt.len(), 1);
    assert_eq!(inventory.list_counters(ListRequest::new()).await?.corrupt.len(), 1);
    Ok(())
}

/// Names that are no text and records that are larger than an answer may be hide no other record, wherever pages end.
#[tokio::test]
async fn strange_records_hide_nothing_in_a_listing() -> Result<()> {
    let prefix = fresh();
    let (ours, raw) = (backend(&prefix).await, Raw(shared()));
    let _first = take(&ours, "alpha", 60_000).await;
    let _last = take(&ours, "zeta", 60_000).await;
    for number in 0..3 {
        for kind in ["l", "f"] {
            let name = [format!("{prefix}/{kind}/m").as_bytes(), &[0xff, number]].concat();
            raw.put_bytes(&name, b"000000000000001");
            // In NFD, so no acquire uses it.
            raw.put(&format!("{prefix}/{kind}/n{number}e\u{301}"), "000000000000007");
            raw.put(&format!("{prefix}/{kind}/o{number}"), &"0".repeat(1_500_000));
        }
    }
    let inventory = ours.inventory().context("an inventory")?;
    for page_size in [1, 2, 3, 1000] {
        let mut next = Some(ListRequest::new().with_page_size(page_size));
        let (mut locks, mut counters, mut corrupt) = (Vec::new(), Vec::new(), 0);
        while let Some(request) = next {
            let page = inventory.list_locks(request).await?;
            locks.extend(page.entries.into_iter().map(|info| info.key.expose().to_owned()));
            corrupt += page.corrupt.len();
            next = page.next;
        }
        let mut next = Some(ListRequest::new().with_page_size(page_size));
        while let Some(request) = next {
            let page = inventory.list_counters(request).await?;
            counters
                .extend(page.entries.into_iter().map(|counter| counter.key.expose().to_owned()));
            corrupt += page.corrupt.len();
            next = page.next;
        }
        assert_eq!(locks, ["alpha", "zeta"], "{page_size}");
        assert_eq!(counters, ["alpha", "zeta"], "{page_size}");
        assert_eq!(corrupt, 18, "{page_size}");
    }
    Ok(())
}

/// A record that is larger than any answer is named without its value.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_no_answer_can_hold_hides_nothing() -> Result<()> {
    let cluster = EtcdCluster::builder().flag("--max-request-bytes=8000000").start(1)?;
    let ours = backend_at(cluster.port(0), "p", options()).await;
    let _lock = take(&ours, "zeta", 60_000).await;
    Raw(&cluster).put("p/l/m", &"0".repeat(5_000_000));
    let inventory = ours.inventory().context("an inventory")?;
    let page = inventory.list_locks(ListRequest::new().with_page_size(1)).await?;
    assert_eq!((page.entries.len(), page.corrupt.len()), (0, 1), "{page:?}");
    let page = inventory.list_locks(page.next.context("a page")?).await?;
    assert_eq!((page.entries.len(), page.corrupt.len()), (1, 0), "{page:?}");
    let error = ours.acquire(request("m", 1)).await.unwrap_err();
    assert!(error.message().contains("too large"), "{error:?}");
    Ok(())
}
