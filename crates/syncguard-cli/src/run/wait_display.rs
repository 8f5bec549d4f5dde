//! Shows the holder to a waiter on a terminal.

use std::future::pending;
use std::time::Duration;

use syncguard::diagnostics::get_by_key;
use syncguard::{DynBackend, LockInfo};
use tokio::time::{Instant, sleep};

use super::request::LockRequest;
use crate::holder;
use crate::output::{Output, StatusLine};
use crate::time::{human, since};

/// The display of a waiter.
pub(super) struct WaitDisplay<'a> {
    backend: &'a DynBackend,
    request: &'a LockRequest,
    output: Output,
}

impl<'a> WaitDisplay<'a> {
    /// Most locks are free, so nothing is shown before this time is over.
    const DELAY: Duration = Duration::from_millis(300);

    /// The seconds between two look-ups of the holder, which cost the store a request.
    const LOOK_UP_SECONDS: u32 = 5;

    pub(super) fn new(backend: &'a DynBackend, request: &'a LockRequest, output: Output) -> Self {
        Self { backend, request, output }
    }

    /// Never completes. Dropping the future clears the line.
    pub(super) async fn show(&self) {
        let began = Instant::now();
        sleep(Self::DELAY).await;
        let line = self.output.status_line().filter(|_| self.request.waits());
        let Some(line) = line else { return pending().await };
        let mut holder = None;
        for second in 0_u32.. {
            if second % Self::LOOK_UP_SECONDS == 0 {
                holder = self.holder().await;
            }
            self.draw(&line, holder.as_ref(), began);
            sleep(Duration::from_secs(1)).await;
        }
    }

    async fn holder(&self) -> Option<LockInfo> {
        // Each permit and each reader has its own holder, so there is no single holder to show.
        let key = self.request.config.key().ok().filter(|_| self.request.is_plain())?;
        get_by_key(self.backend, key.clone()).await.ok().flatten()
    }

    /// Draws a short line: a line that is wrapped could not be erased.
    fn draw(&self, line: &StatusLine, holder: Option<&LockInfo>, began: Instant) {
        let waited = human(Duration::from_secs(began.elapsed().as_secs()));
        line.show(&match holder {
            Some(info) => format!(
                "waiting for {}, who has had the lock for {} ({waited})",
                holder::name(info),
                human(since(info.acquired_at))
            ),
            None if self.request.permits.is_some() => format!("waiting for a permit ({waited})"),
            None => format!("waiting for the lock ({waited})"),
        });
    }
}
