//! A store that has lost its fence counters.

use std::time::Duration;

use crate::common::FaultyBackend;
use crate::common::log::Log;
use crate::common::store::SmallStore;
use syncguard_core::{LockConfig, acquire};
use tracing::Level;

#[tokio::test(start_paused = true)]
async fn fences_that_start_again_are_logged_once_for_each_loss() {
    let log = Log::new();
    let _here = tracing::subscriber::set_default(log.clone());
    let mut errors = 0;
    let mut backend = FaultyBackend::new();
    let other = FaultyBackend::new();
    for loss in 0..3 {
        for fence in 1..4 {
            for backend in [&backend, &other] {
                let config = LockConfig::new("k").with_ttl(Duration::from_secs(30));
                let guard = acquire(backend, config).await.unwrap();
                assert!(guard.fence().get() >= fence);
                guard.release().await.unwrap();
            }
            errors += log.take().iter().filter(|level| **level == Level::ERROR).count();
            assert_eq!(errors, loss);
        }
        backend.store = SmallStore::new();
    }
}
