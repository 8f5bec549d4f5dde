//! Telemetry around a backend that was chosen at run time.

#![cfg(all(feature = "memory", feature = "telemetry"))]

use std::sync::mpsc::channel;

use syncguard::telemetry::{EventKind, TelemetryOptions, with_telemetry};

#[tokio::test]
async fn a_connected_backend_can_be_observed() {
    let (told, events) = channel();
    let options =
        TelemetryOptions::new().with_on_event(move |event| told.send(event.kind).unwrap());
    let backend = with_telemetry(syncguard::connect("memory:").await.unwrap(), options);
    syncguard::lock(&backend, "key", async |held| held.fence()).await.unwrap();
    backend.telemetry().flush().await;
    drop(backend);
    let all = [EventKind::Acquire, EventKind::Wait, EventKind::Hold, EventKind::Release];
    assert_eq!(events.iter().collect::<Vec<_>>(), all);
}
