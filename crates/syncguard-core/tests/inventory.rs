//! Requests for a listing, and a backend without an inventory.

use crate::common::FaultyBackend;
use syncguard_core::inventory::ListRequest;
use syncguard_core::{DynBackend, LockBackend as _};

#[tokio::test]
async fn a_backend_without_an_inventory_says_so() {
    assert!(DynBackend::new(FaultyBackend::new()).inventory().is_none());
}

#[test]
fn a_page_starts_behind_its_place_and_not_before_its_prefix() {
    let all = ListRequest::new();
    assert_eq!((all.expose_place(), all.expose_start()), (None, ""));
    let jobs = ListRequest::new().with_prefix("job:").with_page_size(7);
    assert_eq!((jobs.expose_place(), jobs.expose_start()), (None, "job:"));
    let later = jobs.behind("job:7");
    assert_eq!((later.expose_place(), later.expose_start()), (Some("job:7"), "job:7"));
    assert_eq!((later.expose_prefix(), later.page_size()), ("job:", 7));
    // A place of another listing.
    assert_eq!(jobs.behind("a").expose_start(), "job:");
}
