//! Lists a hundred thousand locks while other locks come and go between the pages.

use std::collections::HashSet;
use std::time::Duration;

use syncguard_memory::contract::{AcquireRequest, ReleaseRequest};
use syncguard_memory::inventory::ListRequest;
use syncguard_memory::{LockBackend as _, MemoryBackend};

#[tokio::test]
async fn a_hundred_thousand_locks_are_listed_while_others_come_and_go() {
    const COUNT: usize = 100_000;
    let backend = MemoryBackend::new();
    let take = async |key: String| {
        let request = AcquireRequest::new(key, Duration::from_secs(3600)).unwrap();
        backend.acquire(request).await.unwrap().acquired().unwrap().lock_id
    };
    let key = |number: usize| format!("bulk:{number:06}");
    for number in 0..COUNT {
        let _ = take(key(number)).await;
    }
    let request = ListRequest::new().with_prefix("bulk:");
    let request = request.with_page_size(ListRequest::MAX_PAGE_SIZE);
    let (mut listed, mut passing, mut held) = (HashSet::new(), 0, Vec::new());
    let (inventory, mut next) = (backend.inventory().expect("an inventory"), Some(request));
    while let Some(request) = next {
        let page = inventory.list_locks(request).await.unwrap();
        next = page.next;
        for lock in page.entries {
            let text = lock.expose().key.expose().to_owned();
            passing += usize::from(text.ends_with('+'));
            assert!(listed.insert(text), "a key is listed twice");
        }
        for lock_id in held.drain(..) {
            let released = backend.release(ReleaseRequest::new(lock_id)).await.unwrap();
            assert!(released.is_released());
        }
        for number in (listed.len() % 97..COUNT).step_by(997) {
            held.push(take(format!("{}+", key(number))).await);
        }
    }
    assert!(
        (0..COUNT).all(|number| listed.contains(&key(number))),
        "a lock that stayed is missing"
    );
    assert_eq!(listed.len(), COUNT + passing);
    assert!(passing > 0);
}
