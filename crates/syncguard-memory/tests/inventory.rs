//! The inventory: checks before the store is asked, and the inventory of a `DynBackend`.

use syncguard_memory::inventory::{Inventory, ListRequest};
use syncguard_memory::{
    DynBackend, ErrorCode, Fence, LockBackend as _, LockError, MemoryBackend, try_acquire,
};

fn fence(number: u64) -> Fence {
    Fence::new(number).unwrap()
}

fn inventory() -> Inventory {
    MemoryBackend::new().inventory().expect("all stores of the library have one")
}

#[track_caller]
fn refused<T>(result: Result<T, LockError>) -> String {
    let error = result.err().expect("a refusal");
    assert_eq!(error.code(), ErrorCode::InvalidArgument);
    error.message().to_owned()
}

#[tokio::test]
async fn a_dyn_backend_carries_the_inventory_through_wrappers() {
    let store = MemoryBackend::new();
    let _held = try_acquire(&store, "job:1").await.unwrap().acquired().expect("free");
    let wrapped = DynBackend::new(std::sync::Arc::new(DynBackend::new(store)));
    let inventory = wrapped.inventory().expect("that of the store");
    let page = inventory.list_locks(ListRequest::new().with_prefix("job:")).await.unwrap();
    assert_eq!(page.entries.len(), 1);
    assert!(page.next.is_none());
    assert_eq!(inventory.raise_counter("job:1", fence(7)).await.unwrap(), fence(7));
    assert_eq!(inventory.fence_counter("job:1").await.unwrap(), Some(fence(7)));
    let counters = inventory.list_counters(ListRequest::new()).await.unwrap().entries;
    assert_eq!((counters[0].key.expose(), counters[0].last), ("job:1", fence(7)));
}

#[tokio::test]
async fn bad_arguments_are_refused_before_the_store_is_asked() {
    let inventory = inventory();
    for size in [0, 1001, usize::MAX] {
        let request = ListRequest::new().with_page_size(size);
        assert!((1..=1000).contains(&request.page_size()));
        assert!(
            refused(inventory.list_locks(request.clone()).await).contains("1 to 1000 are allowed")
        );
        refused(inventory.list_counters(request).await);
    }
    for size in [1, 1000] {
        let request = ListRequest::new().with_page_size(size);
        assert_eq!(request.page_size(), size);
        inventory.list_locks(request).await.unwrap();
    }
    for bad in ["x".repeat(513), "secret\0".to_owned()] {
        let request = ListRequest::new().with_prefix(&bad);
        // A backend that gets the request without these checks shows no key.
        assert!(!request.includes(&bad) && !request.includes("x"));
        let message = refused(inventory.list_locks(request.clone()).await);
        inventory.list_locks(request.with_prefix("x")).await.expect("the last prefix counts");
        assert!(message.starts_with("prefix of keys: "), "{message}");
        assert!(!message.contains("secret"));
    }
    refused(inventory.fence_counter("").await);
    refused(inventory.raise_counter("", fence(1)).await);
    for bad in [fence(Fence::MAX.get() + 1), fence(999_999_999_999_999)] {
        assert!(refused(inventory.raise_counter("key", bad).await).contains("is allowed"));
    }
    inventory.raise_counter("key", Fence::MAX).await.unwrap();
}
