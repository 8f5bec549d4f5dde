//! The log of the signal hub.

use crate::common::hub::{RESTED, Store, failure};
use crate::common::log::Log;
use syncguard_core::authoring::OutageLog;
use syncguard_core::authoring::signals::SignalEnd;
use tokio::time::advance;
use tracing::Level;

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
