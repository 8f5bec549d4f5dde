//! How a backend measures the drift of its machine's clock.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use syncguard_core::authoring::{ClockDrift, DriftGauge, DriftLevel, SentAt, ServerTime};
use tokio::time::advance;
use tracing::Level;

use crate::common::log::Log;

/// Gives the gauge a response after `round_trip` ms from a server whose clock reads `server`, to a client whose clock
/// read `client` when it sent the request; all in ms.
async fn respond(gauge: &DriftGauge, client: u64, round_trip: u64, server: i64) -> ClockDrift {
    let sent = SentAt::now(UNIX_EPOCH + Duration::from_millis(client));
    advance(Duration::from_millis(round_trip)).await;
    gauge.take(&sent, ServerTime { unix_micros: server * 1000, unit_micros: 0 });
    gauge.drift().unwrap()
}

fn gauge() -> DriftGauge {
    DriftGauge::new("test", Arc::new(SystemTime::now), true)
}

#[tokio::test(start_paused = true)]
async fn a_server_that_tells_whole_seconds_says_less() {
    let gauge = gauge();
    let sent = SentAt::now(UNIX_EPOCH + Duration::from_millis(10_400));
    advance(Duration::from_millis(20)).await;
    gauge.take(&sent, ServerTime { unix_micros: 10_000_000, unit_micros: 1_000_000 });
    assert_eq!(gauge.drift().unwrap().bounds_millis(), (-600, 420));
    // A second that begins between two responses narrows the bounds to their distance.
    advance(Duration::from_millis(30)).await;
    let sent = SentAt::now(UNIX_EPOCH + Duration::from_millis(10_450));
    gauge.take(&sent, ServerTime { unix_micros: 11_000_000, unit_micros: 1_000_000 });
    assert_eq!(gauge.drift().unwrap().bounds_millis(), (-600, -550));
}

#[tokio::test(start_paused = true)]
async fn the_servers_time_is_known_within_the_bounds() {
    let now = syncguard_core::Timestamp::from_millis(20_000).unwrap();
    for (server, earliest, nearest) in
        [(9_000, 18_899, 19_000), (10_050, 19_949, 20_000), (10_300, 20_199, 20_200)]
    {
        let gauge = gauge();
        assert_eq!(gauge.nearest_server_time(now).unwrap(), now);
        respond(&gauge, 10_000, 100, server).await;
        assert_eq!(gauge.earliest_server_time(now).unwrap().as_millis(), earliest);
        assert_eq!(gauge.nearest_server_time(now).unwrap().as_millis(), nearest);
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_answer_proves_nothing_and_undoes_nothing() {
    let drift = respond(&gauge(), 10_000, 3000, 11_000).await;
    assert_eq!((drift.at_least(), drift.level()), (Duration::ZERO, DriftLevel::Fine));
    let gauge = gauge();
    respond(&gauge, 10_000, 20, 9_300).await;
    assert_eq!(respond(&gauge, 10_000, 3000, 11_000).await.level(), DriftLevel::Block);
    assert!(gauge.check().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_was_set_is_seen_at_once() {
    let gauge = gauge();
    assert_eq!(respond(&gauge, 10_000, 20, 9_300).await.level(), DriftLevel::Block);
    assert_eq!(respond(&gauge, 10_000, 20, 10_010).await.level(), DriftLevel::Fine);
    assert!(gauge.check().is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_ladder_holds_both_ways() {
    for (server, level) in [
        (10_000, DriftLevel::Fine),
        (9_801, DriftLevel::Fine),
        (9_800, DriftLevel::Warn),
        (9_501, DriftLevel::Warn),
        (9_500, DriftLevel::Block),
        // A client clock that is behind may be nearer by the round trip of 5 ms.
        (10_204, DriftLevel::Fine),
        (10_205, DriftLevel::Warn),
        (10_504, DriftLevel::Warn),
        (10_505, DriftLevel::Block),
    ] {
        assert_eq!(respond(&gauge(), 10_000, 5, server).await.level(), level, "{server}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_step_of_the_ladder_is_logged_once_a_minute() {
    let log = Log::new();
    let _here = tracing::subscriber::set_default(log.clone());
    let gauge = gauge();
    for (server, logged) in
        [(9_900, None), (9_700, Some(Level::WARN)), (9_400, Some(Level::ERROR)), (10_900, None)]
    {
        for _ in 0..3 {
            respond(&gauge, 10_000, 5, server).await;
        }
        assert_eq!(log.take(), logged.into_iter().collect::<Vec<_>>(), "{server}");
    }
}
