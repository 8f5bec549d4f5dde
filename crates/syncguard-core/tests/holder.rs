//! The holder of a lock, as the backend is asked to store it.

use crate::common::FaultyBackend;
use crate::common::store::SmallStore;
use syncguard_core::authoring::recipes::as_recipe;
use syncguard_core::authoring::{bound_holder, holder_in, is_polled};
use syncguard_core::contract::Holder;
use syncguard_core::shared::ClientState;
use syncguard_core::{ErrorCode, Fence, LockConfig, Locker, acquire, try_acquire};

/// A label and a note, as the backend stores them.
type Texts = (String, Option<String>);

/// `None` is the holder of the backend.
type Asked = Option<Texts>;

async fn asked(backend: &FaultyBackend, config: LockConfig) -> Asked {
    let guard = try_acquire(backend, config).await.unwrap().acquired().expect("free");
    assert!(guard.release().await.unwrap().is_released());
    last(backend)
}

fn last(backend: &FaultyBackend) -> Asked {
    let holder = backend.behaviour.holder.lock().unwrap().clone();
    holder.map(|holder| (holder.label().to_owned(), holder.note().map(str::to_owned)))
}

fn texts(label: &str, note: Option<&str>) -> Texts {
    (label.to_owned(), note.map(str::to_owned))
}

#[tokio::test(start_paused = true)]
async fn the_lock_decides_before_the_locker_and_the_backend() {
    let default_holder = Holder::new("backend").unwrap().with_note("its note").unwrap();
    let backend =
        FaultyBackend::with_client_state(ClientState::default().with_holder(default_holder));
    let key = || LockConfig::new("key");
    assert_eq!(asked(&backend, key()).await, None);
    assert_eq!(
        asked(&backend, key().with_holder("own")).await,
        Some(texts("own", Some("its note")))
    );
    assert_eq!(asked(&backend, key().with_note("own")).await, Some(texts("backend", Some("own"))));
    assert_eq!(asked(&backend, key().without_holder()).await, Some(texts("", None)));
    let both = key().with_note("n").with_holder("first").with_holder("h");
    assert_eq!(asked(&backend, both).await, Some(texts("h", Some("n"))));

    let unnoted = Holder::new("backend").unwrap();
    let other = FaultyBackend::with_client_state(ClientState::default().with_holder(unnoted));
    let recipe = as_recipe(key(), "election");
    assert_eq!(asked(&other, recipe).await, Some(texts("backend", Some("election"))));

    let locker = Locker::new(backend.clone()).with_holder("locker").with_note("");
    assert!(locker.try_acquire("key").await.unwrap().is_acquired());
    assert_eq!(last(&backend), Some(texts("locker", None)));
}

#[tokio::test]
async fn a_label_that_no_terminal_can_show_is_refused_before_anything_is_sent() {
    let backend = FaultyBackend::new();
    for config in [
        LockConfig::new("key").with_holder("a\nb"),
        LockConfig::new("key").with_note("x".repeat(129)),
    ] {
        let error = try_acquire(&backend, config).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArgument);
    }
    assert_eq!(last(&backend), None);
}

/// A program that asks for its own lock waits for itself, and the error says so.
#[tokio::test(start_paused = true)]
async fn the_error_of_a_waiter_says_that_the_holder_has_the_name_of_its_own_process() {
    for (label, is_own) in [(Holder::this_process().label(), true), ("elsewhere/1", false)] {
        let store = SmallStore::new();
        let _held = try_acquire(&store, LockConfig::new("key").with_holder(label)).await.unwrap();
        let waits = LockConfig::new("key").with_wait_up_to(std::time::Duration::from_secs(1));
        let error = acquire(&store, waits).await.unwrap_err();
        assert_eq!(error.holder().unwrap().label(), label);
        let says = format!("its holder is {label}");
        assert!(error.message().contains(&says), "{error}");
        assert_eq!(error.message().contains("this process itself"), is_own, "{error}");
    }
}

#[test]
fn a_holder_belongs_to_the_lock_that_it_was_written_with() {
    let (fence, next) = (Fence::new(7).unwrap(), Fence::new(8).unwrap());
    let holder = Holder::new("web 1").unwrap();
    let noted = holder.clone().with_note("run 4").unwrap();
    assert_eq!(bound_holder(&holder, fence), "000000000000007 web 1");
    assert_eq!(bound_holder(&noted, fence), "000000000000007 web 1\nrun 4");
    for holder in [holder, noted, Holder::unnamed()] {
        let column = bound_holder(&holder, fence);
        assert!(!is_polled(Some(&column), fence) && is_polled(Some(&column), next));
        let found = holder_in(Some(&column), fence);
        let told = found.as_ref().map(|found| (found.label(), found.note()));
        let is_there = !holder.label().is_empty();
        assert_eq!(told, is_there.then(|| (holder.label(), holder.note())));
        assert_eq!(holder_in(Some(&column), next), None);
    }
    // An earlier version wrote a tab before some labels.
    let old = Some("000000000000007 \tweb");
    assert!(!is_polled(old, fence) && holder_in(old, fence) == Holder::new("web").ok());
    for other in [None, Some(""), Some("7 web"), Some("000000000000007"), Some("web 1")] {
        assert!(is_polled(other, fence), "{other:?}");
    }
}
