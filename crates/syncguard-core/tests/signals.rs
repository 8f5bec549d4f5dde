//! The signal hub, over a store whose part the tests play.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::common::hub::{LIMITS, RESTED, Store, failure};
use crate::common::log::Log;
use crate::common::runtime;
use syncguard_core::authoring::OutageLog;
use syncguard_core::authoring::signals::{LockSeen, SignalEnd, SignalHub};
use syncguard_core::contract::SignalStatus;
use tokio::runtime::Builder;
use tokio::time::{Instant, advance, sleep, timeout};
use tracing::Level;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_watch_is_handed_out_once_the_store_has_confirmed() {
    let mut store = Store::new();
    assert_eq!(store.status(), SignalStatus::Unused);
    let waiting = store.watch("k");
    let session = store.session().await;
    assert_eq!(session.asks().await, (vec!["k".to_owned()], vec![]));
    assert!(!waiting.is_finished() && store.status() == SignalStatus::Unused);
    session.subscriptions.confirm("k", LockSeen::Held);
    let mut first = waiting.await.unwrap().expect("a watch");
    assert!(first.is_locked && store.status() == SignalStatus::Working);

    let second = store.watch("k");
    session.confirms("k", false).await;
    let mut second = second.await.unwrap().expect("a watch");
    assert!(!second.is_locked && store.sessions.is_empty(), "one session for both");
    session.subscriptions.signal("k");
    first.changed().await;
    second.changed().await;
    assert!(!first.is_over() && !second.is_over());
    session.subscriptions.end("k");
    assert!(first.is_over() && second.is_over());
}

#[tokio::test(start_paused = true)]
async fn dropped_watches_are_unsubscribed() {
    let mut store = Store::new();
    let (session, watch) = store.open("k").await;
    drop(watch);
    assert_eq!(session.asks().await, (vec![], vec!["k".to_owned()]));
    // A waiter leaves while the store is asked.
    let waiting = store.watch("other");
    assert_eq!(session.asks().await.0, ["other"]);
    waiting.abort();
    assert_eq!(session.asks().await, (vec![], vec!["other".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn a_session_is_probed_while_it_is_quiet_and_closed_when_it_is_idle() {
    let mut store = Store::new();
    let (session, watch) = store.open("k").await;
    let started = Instant::now();
    assert_eq!(session.asks().await, (vec![], vec![]));
    assert_eq!(started.elapsed(), 5 * SECOND);
    sleep(SECOND).await;
    session.subscriptions.signal("k");
    assert_eq!(session.asks().await, (vec![], vec![]));
    assert_eq!(started.elapsed(), 11 * SECOND, "a signal is a sign of life");

    drop(watch);
    assert_eq!(session.asks().await.1, ["k"]);
    let started = Instant::now();
    assert!(session.subscriptions.next().await.is_none());
    assert_eq!(started.elapsed(), 10 * SECOND);
    // The next watch does not wait for the end of the idle session.
    let (second, _watch) = store.open("k").await;
    session.ends(Err(failure())).await;
    assert_eq!(store.status(), SignalStatus::Working);
    drop(second);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_not_confirmed_in_time_is_given_up() {
    let mut store = Store::new();
    let started = Instant::now();
    assert!(store.hub.watch("k").await.is_none());
    assert_eq!(started.elapsed(), LIMITS.confirm);
    assert!(store.hub.watch("k").await.is_none());
    assert_eq!(started.elapsed(), LIMITS.confirm, "the session is still being opened");
    let session = store.session().await;
    let asked = timeout(SECOND / 10, session.subscriptions.next()).await;
    assert!(asked.is_err(), "no waiter is left");
    assert!(store.hub.watch("k").await.is_none(), "the store does not confirm");
    let waiting = store.watch("k");
    session.confirms("k", false).await;
    assert!(waiting.await.unwrap().is_some(), "the session goes on for later waiters");
}

#[tokio::test(start_paused = true)]
async fn a_store_may_refuse() {
    let mut store = Store::new();
    let (session, watch) = store.open("k").await;
    let refused = store.watch("k");
    assert_eq!(session.asks().await.0, ["k"]);
    session.subscriptions.refuse("k");
    assert!(refused.await.unwrap().is_none());
    assert!(!watch.is_over() && store.status() == SignalStatus::Working);
}

#[tokio::test(start_paused = true)]
async fn a_store_without_signals_is_not_asked_again() {
    let mut store = Store::new();
    let waiting = store.watch("k");
    store.session().await.ends(Ok(SignalEnd::Unsupported)).await;
    assert!(waiting.await.unwrap().is_none());
    assert_eq!(store.status(), SignalStatus::Off);
    advance(100 * SECOND).await;
    assert!(store.hub.watch("k").await.is_none() && store.sessions.is_empty());
}

#[tokio::test(start_paused = true)]
async fn rests_grow_while_sessions_fail() {
    let mut store = Store::new();
    let (started, mut sessions) = (Instant::now(), 0);
    while started.elapsed() < 60 * SECOND {
        let waiting = store.watch("k");
        while let Ok(session) = store.sessions.try_recv() {
            sessions += 1;
            session.ends(Err(failure())).await;
        }
        if waiting.is_finished() {
            assert!(waiting.await.unwrap().is_none());
            assert!(sessions == 0 || store.status() == SignalStatus::Failing);
        }
        sleep(SECOND / 100).await;
    }
    // Pauses grow from 0.1 s to 5 s, and jitter shortens each by half at the most.
    assert!((17..=35).contains(&sessions), "{sessions}");
}

#[tokio::test(start_paused = true)]
async fn a_session_that_was_good_is_replaced_at_once() {
    let mut store = Store::new();
    let (session, watch) = store.open("k").await;
    session.ends(Err(failure())).await;
    assert!(watch.is_over() && store.status() == SignalStatus::Failing);
    assert!(store.hub.watch("k").await.is_none() && store.sessions.is_empty(), "the hub pauses");
    advance(RESTED).await;
    let (session, watch) = store.open("k").await;
    assert_eq!(session.asks().await, (vec![], vec![]));
    assert_eq!(store.status(), SignalStatus::Working);
    session.ends(Ok(SignalEnd::Closed)).await;
    assert!(watch.is_over() && store.status() == SignalStatus::Failing);
    let _open = store.open("k").await;
    assert_eq!(store.status(), SignalStatus::Working);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_lost_meanwhile_is_replaced_within_the_call() {
    let mut store = Store::new();
    let (session, _watch) = store.open("k").await;
    assert_eq!(session.asks().await, (vec![], vec![]));
    let waiting = store.watch("other");
    assert_eq!(session.asks().await.0, ["other"]);
    session.ends(Err(failure())).await;
    let session = store.session().await;
    session.confirms("other", false).await;
    assert!(waiting.await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_session_that_does_not_come_back_has_failed() {
    let mut store = Store::new();
    // A session that is being opened.
    let waiting = store.watch("k");
    let session = store.session().await;
    assert!(waiting.await.unwrap().is_none());
    sleep(LIMITS.open).await;
    assert!(session.end.is_closed() && store.status() == SignalStatus::Failing);
    // An open session that was quiet and then gets a request.
    sleep(RESTED).await;
    let (session, mut watch) = store.open("k").await;
    assert!(timeout(SECOND, session.subscriptions.next()).await.is_err());
    let waiting = store.watch("other");
    assert_eq!(session.asks().await.0, ["other"]);
    let started = Instant::now();
    watch.changed().await;
    assert_eq!(started.elapsed(), LIMITS.step);
    assert!(watch.is_over() && session.end.is_closed());
    assert!(waiting.await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_is_gone_leaves_the_session_to_its_last_watch() {
    let mut store = Store::new();
    let (session, watch) = store.open("k").await;
    drop(store);
    assert_eq!(session.asks().await, (vec![], vec![]), "the session goes on");
    drop(watch);
    assert_eq!(session.asks().await.1, ["k"]);
    let started = Instant::now();
    assert!(session.subscriptions.next().await.is_none());
    assert_eq!(started.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_opens_in_vain_ends_with_its_hub() {
    let log = Log::new();
    let _here = tracing::subscriber::set_default(log.clone());
    let mut store = Store::new();
    assert!(store.hub.watch("k").await.is_none(), "the store is silent");
    let mut session = store.session().await;
    let gone = Instant::now();
    drop(store);
    session.end.closed().await;
    assert_eq!(gone.elapsed(), Duration::ZERO);
    assert!(log.take().is_empty(), "no outage");
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_is_closed_ends_all_watches_and_may_be_used_again() {
    let mut store = Store::new();
    let (session, watch) = store.open("k").await;
    store.hub.close();
    assert!(watch.is_over());
    tokio::task::yield_now().await;
    assert!(session.end.is_closed() && store.status() == SignalStatus::Unused);
    let _open = store.open("k").await;
}

#[tokio::test(start_paused = true)]
async fn an_outage_and_its_end_are_logged_once() {
    let log = Log::new();
    let _here = tracing::subscriber::set_default(log.clone());
    let outage = OutageLog::default();
    let (mut here, mut there) =
        (Store::with_outage(outage.clone()), Store::with_outage(outage.clone()));
    for _ in 0..2 {
        for store in [&mut here, &mut there] {
            store.open("k").await.0.ends(Err(failure())).await;
        }
        advance(RESTED).await;
    }
    assert_eq!(log.take(), [Level::WARN]);
    let (session, _watch) = here.open("k").await;
    assert!(log.take().is_empty(), "the session may be lost again at once");
    session.asks().await;
    tokio::task::yield_now().await;
    assert_eq!(log.take(), [Level::INFO]);
    there.open("k").await.0.ends(Err(failure())).await;
    session.asks().await;
    tokio::task::yield_now().await;
    assert_eq!(log.take(), [Level::WARN], "the end was logged once");
    session.ends(Ok(SignalEnd::Closed)).await;
    assert!(log.take().is_empty());
}

#[test]
fn a_session_ends_with_its_runtime_and_another_runtime_opens_the_next() {
    let mut store = Store::new();
    let first = runtime();
    let (_session, mut watch) = first.block_on(store.open("k"));
    drop(first);
    runtime().block_on(async {
        watch.changed().await;
        assert!(watch.is_over() && store.status() == SignalStatus::Unused, "nothing has failed");
        let _open = store.open("k").await;
    });
}

/// Asks for a watch while its runtime drops it.
struct Late(Arc<SignalHub>);

impl Drop for Late {
    fn drop(&mut self) {
        let watch = std::pin::pin!(self.0.watch("k"));
        let waker = std::task::Waker::noop();
        let _ = watch.poll(&mut std::task::Context::from_waker(waker));
    }
}

#[test]
fn a_runtime_that_is_shutting_down_is_no_deadlock() {
    let store = Store::new();
    let hub = Arc::clone(&store.hub);
    let runtime = runtime();
    runtime.spawn(async move {
        let _late = Late(hub);
        std::future::pending::<()>().await;
    });
    runtime.block_on(tokio::task::yield_now());
    drop(runtime);
    assert_eq!(store.status(), SignalStatus::Unused);
}

#[test]
fn a_runtime_that_stands_still_is_replaced() {
    let mut store = Store::new();
    let still = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let (session, watch) = still.block_on(async {
        let (session, watch) = store.open("k").await;
        assert!(timeout(SECOND, session.subscriptions.next()).await.is_err());
        (session, watch)
    });
    // The clock of the first runtime goes on, and nothing polls its tasks.
    thread::scope(|scope| {
        scope.spawn(|| {
            let other = Builder::new_current_thread().enable_all().start_paused(true).build();
            other.unwrap().block_on(async {
                advance(60 * SECOND).await;
                let _open = store.open("k").await;
                assert!(watch.is_over());
            });
        });
    });
    drop(session);
}
