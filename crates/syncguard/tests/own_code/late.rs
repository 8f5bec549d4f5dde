use std::cell::Cell;
use std::time::Duration;
use syncguard::{Fence, LockError, acquire, memory::TestStore, try_acquire};

/// The data under test: refuses a fence below the highest that it has seen.
#[derive(Default)]
struct Account {
    fence: Cell<Option<Fence>>,
}

impl Account {
    fn write(&self, fence: Fence) -> bool {
        let is_new = self.fence.get() <= Some(fence);
        if is_new {
            self.fence.set(Some(fence));
        }
        is_new
    }
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_comes_too_late_changes_nothing() -> Result<(), LockError> {
    let (store, account) = (TestStore::new(), Account::default());
    let stalled = acquire(&store, "account:7").await?;
    assert!(store.expire_lock("account:7")?);

    let next = try_acquire(&store, "account:7").await?.acquired().expect("it has expired");
    assert!(account.write(next.fence()));
    assert!(!account.write(stalled.fence()));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_request_is_given_up_after_a_second() {
    let store = TestStore::new();
    store.set_delay(Duration::from_secs(4));
    let handler = async { acquire(&store, "account:7").await.map(drop) };
    assert!(tokio::time::timeout(Duration::from_secs(1), handler).await.is_err());

    // The dropped acquire leaves no lock behind.
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(store.memory().stored_locks(), 0);
}
