//! Answers that are cut after any number of bytes, and in a full run after each.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use syncguard::contract::{
    AcquireRequest, ExtendRequest, IsLockedRequest, LookupRequest, ReleaseRequest,
};
use syncguard::{DynBackend, ExtendResult, LockBackend as _, LockError, LockId, ReleaseResult};
use syncguard_test_effort::either;
use syncguard_test_services::proxy::{FaultProxy, ReplyCut};
use syncguard_test_services::store::Store;
use syncguard_test_services::test_each_server;
use syncguard_tests::calls::until;
use tokio::runtime::Runtime;

use super::{MINUTE, at, failures_before_an_extend, port, take, url_at};
use crate::differential::stores::part;

/// The end of an operation whose answer is cut.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sent {
    /// Its caller hears of it.
    Once,
    /// The backend sends it again, and has an answer.
    Again,
    /// One or the other, depending on which of its requests was cut.
    Either,
}

/// Of an acquire, an extend, a release and a lookup.
fn sent(store: Store) -> [Sent; 4] {
    use Sent::{Again, Either, Once};
    match store {
        Store::Memory | Store::Sqlite => unreachable!("no server"),
        Store::Redis => [Once, Once, Once, Again],
        Store::Postgres => [Again, Once, Once, Again],
        Store::Etcd | Store::Firestore | Store::ObjectStore => [Again, Again, Either, Again],
    }
}

/// Connecting takes most of the time.
fn step(store: Store) -> usize {
    match store {
        Store::Memory | Store::Sqlite | Store::Redis => 1,
        Store::Postgres => either(3, 1),
        Store::Etcd => either(7, 1),
        Store::Firestore => either(11, 1),
        Store::ObjectStore => either(37, 3),
    }
}

/// A driver may have read as many bytes in front of the cut as it needs, and notice nothing.
const ENOUGH: usize = 8;

async fn cut(store: Store) -> Result<()> {
    let proxy = FaultProxy::start(port(store))?;
    let part = part();
    let direct = at(store, port(store), &part, MINUTE).await?;
    let options: &[&str] = match store {
        // One connection, so that the next answer is the one of the operation.
        Store::Postgres => &["&pool_size=1"],
        Store::Etcd | Store::Firestore | Store::ObjectStore => {
            &["&remembered_locks=10", "&remembered_locks=0"]
        }
        _ => &["&holder="],
    };
    for option in options {
        let url = store.with_timeouts(url_at(store, proxy.port(), &part) + option, 60_000);
        let ours = syncguard::connect(&url).await?;
        for (operation, sent) in
            ["acquire", "extend", "release", "lookup"].into_iter().zip(sent(store))
        {
            let (mut length, mut cuts, mut unknown) = (0, 0, 0);
            loop {
                let key = format!("{operation}{option} {length}");
                let round = Round { proxy: &proxy, ours: &ours, direct: &direct, key };
                let context = || format!("{operation}, {option:?}, cut after {length} bytes");
                let (was_cut, error) = round.run(operation, length).await.with_context(context)?;
                if let Some(error) = &error {
                    ensure!(was_cut && sent != Sent::Again, "{}: {error:?}", context());
                    ensure!(error.is_retryable(), "{}: {error:?}", context());
                    ensure!(sent != Sent::Once || error.is_outcome_unknown(), "{error:?}");
                    unknown += 1;
                }
                if !was_cut {
                    // The answer was shorter, so all its lengths have been tried.
                    break;
                }
                cuts += 1;
                length += step(store);
            }
            ensure!((4..1000).contains(&cuts), "{operation}: {cuts} cuts");
            ensure!(
                sent != Sent::Once || cuts - unknown < ENOUGH,
                "{operation}: {unknown} of {cuts}"
            );
        }
    }
    Ok(())
}

struct Round<'a> {
    proxy: &'a FaultProxy,
    ours: &'a DynBackend,
    direct: &'a DynBackend,
    key: String,
}

impl Round<'_> {
    /// Cuts the answer to one operation after this many bytes, and returns whether anything was cut, and the operation's
    /// error. Whatever the answer says is so, and nothing is left behind.
    async fn run(&self, operation: &str, length: usize) -> Result<(bool, Option<LockError>)> {
        self.warm().await?;
        let (ours, direct, key) = (self.ours, self.direct, &self.key);
        let held = match operation {
            "acquire" => LockId::generate()?,
            _ => take(ours, key).await?,
        };
        let before = self.proxy.counters().cuts;
        self.proxy.set_reply_cut(ReplyCut::Once(length));
        let began = Instant::now();
        let result = self.send(operation, held).await;
        self.proxy.set_reply_cut(ReplyCut::Never);
        ensure!(began.elapsed() < MINUTE / 3, "it waited for a timeout: {result:?}");
        let was_cut = self.proxy.counters().cuts > before;
        if let Ok(is_done) = result {
            ensure!(is_done, "another answer");
            let found = direct.lookup(LookupRequest::by_key(key)?).await?;
            let found = found.map(|lock| (lock.fence.get(), lock.lock_id));
            ensure!(found == (operation != "release").then_some((1, held)), "{found:?}");
        }
        if operation == "extend" {
            failures_before_an_extend(ours, held).await?;
        }
        let answer = match (operation, &result) {
            // The clean-up releases it.
            ("acquire", Err(_)) => None,
            // A release that was lost may have been carried out or not.
            _ => Some(direct.release(ReleaseRequest::new(held)).await?.is_released()),
        };
        ensure!(operation == "release" || answer != Some(false), "the lock is lost");
        let clean_up = || ours.client_state();
        until("settled", async || clean_up().pending_releases() == 0).await;
        ensure!(clean_up().left_to_ttl() == 0);
        ensure!(!direct.is_locked(IsLockedRequest::new(key)?).await?, "it is left behind");
        Ok((was_cut, result.err()))
    }

    /// Opens a connection that has carried each operation.
    async fn warm(&self) -> Result<()> {
        let all = async || {
            let lock = take(self.ours, "warm").await?;
            failures_before_an_extend(self.ours, lock).await?;
            self.ours.lookup(LookupRequest::by_key("warm")?).await?;
            anyhow::Ok(self.ours.release(ReleaseRequest::new(lock)).await?.is_released())
        };
        until("warm", async || all().await.is_ok_and(|released| released)).await;
        Ok(())
    }

    async fn send(&self, operation: &str, id: LockId) -> Result<bool, LockError> {
        let (ours, key) = (self.ours, self.key.as_str());
        match operation {
            "acquire" => {
                let request = AcquireRequest::new(key, MINUTE)?.with_lock_id(id);
                Ok(ours.acquire(request).await?.is_acquired())
            }
            "extend" => {
                let extended = ours.extend(ExtendRequest::new(id, MINUTE)?).await;
                extended.map(ExtendResult::is_extended)
            }
            "release" => {
                ours.release(ReleaseRequest::new(id)).await.map(ReleaseResult::is_released)
            }
            _ => Ok(ours.lookup(LookupRequest::by_lock_id(id)).await?.is_some()),
        }
    }
}

fn at_any_byte(store: Store) -> Result<()> {
    Runtime::new()?.block_on(cut(store))
}

test_each_server!(at_any_byte);
