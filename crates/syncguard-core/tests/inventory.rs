//! Looking over all locks: what is decided before any store is asked, and what a `DynBackend` carries.

mod common;

use common::Line;
use syncguard_core::inventory::{CounterRequest, Cursor, ListRequest, LockInventory, RaiseRequest};
use syncguard_core::{DynBackend, ErrorCode, Fence, LockBackend, LockError, try_acquire};
use syncguard_memory::MemoryBackend;

fn fence(number: u64) -> Fence {
    Fence::new(number).unwrap()
}

#[tokio::test]
async fn a_backend_need_not_write_anything_for_it_and_says_so() {
    let plain = DynBackend::new(Line::new());
    assert!(plain.inventory().is_none());
    let answers: [Option<LockError>; 4] = [
        plain.list_locks(ListRequest::new()).await.err(),
        plain.list_counters(ListRequest::new()).await.err(),
        plain.fence_counter(CounterRequest::new("key").unwrap()).await.err(),
        plain.raise_counter(RaiseRequest::new("key", fence(1)).unwrap()).await.err(),
    ];
    for error in answers {
        let error = error.expect("no inventory");
        assert_eq!(error.code(), ErrorCode::InvalidArgument);
        assert!(error.message().starts_with("this store cannot list its locks"), "{error}");
    }
}

#[tokio::test]
async fn a_backend_chosen_at_run_time_carries_it_however_it_is_wrapped() {
    let store = MemoryBackend::new();
    let _held = try_acquire(&store, "job:1").await.unwrap().acquired().expect("free");
    let wrapped = DynBackend::new(std::sync::Arc::new(DynBackend::new(store)));
    let page = wrapped.list_locks(ListRequest::new().with_prefix("job:").unwrap()).await.unwrap();
    assert_eq!(page.locks.len(), 1);
    assert!(page.next.is_none());
    let raised = wrapped.raise_counter(RaiseRequest::new("job:1", fence(7)).unwrap()).await;
    assert_eq!(raised.unwrap(), fence(7));
    let counters = wrapped.list_counters(ListRequest::new()).await.unwrap().counters;
    assert_eq!((counters[0].key.expose(), counters[0].last), ("job:1", fence(7)));
}

#[test]
fn bad_arguments_are_refused_by_the_requests() {
    let refused = |error: LockError| {
        assert_eq!(error.code(), ErrorCode::InvalidArgument);
        error.message().to_owned()
    };
    for size in [0, 1001, usize::MAX] {
        let error = ListRequest::new().with_page_size(size).unwrap_err();
        assert!(refused(error).contains("1 to 1000 are allowed"));
    }
    for size in [1, 1000] {
        assert_eq!(ListRequest::new().with_page_size(size).unwrap().page_size, size);
    }
    refused(ListRequest::new().with_prefix("x".repeat(513)).unwrap_err());
    refused(ListRequest::new().with_prefix("x\0").unwrap_err());
    refused(CounterRequest::new("").unwrap_err());
    refused(RaiseRequest::new("", fence(1)).unwrap_err());
    for bad in [fence(Fence::MAX.get() + 1), fence(999_999_999_999_999)] {
        let error = RaiseRequest::new("key", bad).unwrap_err();
        assert!(refused(error).contains("is allowed"));
    }
    RaiseRequest::new("key", Fence::MAX).unwrap();
}

#[test]
fn a_page_starts_behind_its_cursor_and_not_before_its_prefix() {
    let all = ListRequest::new();
    assert_eq!((all.expose_place(), all.expose_start()), ("", ""));
    let jobs = ListRequest::new().with_prefix("job:").unwrap();
    assert_eq!((jobs.expose_place(), jobs.expose_start()), ("", "job:"));
    let later = jobs.clone().with_cursor(Cursor::behind("job:7"));
    assert_eq!((later.expose_place(), later.expose_start()), ("job:7", "job:7"));
    // Of another listing.
    let strange = jobs.with_cursor(Cursor::behind("a"));
    assert_eq!(strange.expose_start(), "job:");
}
