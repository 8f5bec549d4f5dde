//! Who holds a lock: what the backend is asked to store.

mod common;

use common::Line;
use syncguard_core::contract::{ClientState, Holder};
use syncguard_core::{ErrorCode, LockConfig, Locker, try_acquire};

/// Label and note, as the backend stores them.
type Texts = (String, Option<String>);

/// `None` is the holder of the backend.
type Asked = Option<Texts>;

async fn asked(line: &Line, config: LockConfig) -> Asked {
    let guard = try_acquire(line, config).await.unwrap().acquired().expect("free");
    assert!(guard.release().await.unwrap().is_released());
    last(line)
}

fn last(line: &Line) -> Asked {
    let holder = line.behaviour.holder.lock().unwrap().clone();
    holder.map(|holder| (holder.label().to_owned(), holder.note().map(str::to_owned)))
}

fn said(label: &str, note: Option<&str>) -> Texts {
    (label.to_owned(), note.map(str::to_owned))
}

#[tokio::test(start_paused = true)]
async fn the_lock_decides_before_the_locker_and_the_backend() {
    let backend = Holder::new("backend").unwrap().with_note("its note").unwrap();
    let line = Line::with_client_state(ClientState::default().with_holder(backend));
    let key = || LockConfig::new("key");
    assert_eq!(asked(&line, key()).await, None);
    assert_eq!(asked(&line, key().with_holder("own")).await, Some(said("own", Some("its note"))));
    assert_eq!(asked(&line, key().with_note("own")).await, Some(said("backend", Some("own"))));
    assert_eq!(asked(&line, key().without_holder()).await, Some(said("", None)));
    let both = key().with_note("n").with_holder("first").with_holder("h");
    assert_eq!(asked(&line, both).await, Some(said("h", Some("n"))));

    let locker = Locker::new(line.clone()).with_holder("locker").with_note("");
    assert!(locker.try_acquire("key").await.unwrap().is_acquired());
    assert_eq!(last(&line), Some(said("locker", None)));
}

#[tokio::test]
async fn a_label_that_no_terminal_can_show_is_refused_before_anything_is_sent() {
    let line = Line::new();
    for config in [
        LockConfig::new("key").with_holder("a\nb"),
        LockConfig::new("key").with_note("x".repeat(129)),
    ] {
        let error = try_acquire(&line, config).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArgument);
    }
    assert_eq!(last(&line), None);
}
