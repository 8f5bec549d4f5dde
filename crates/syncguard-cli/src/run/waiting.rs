//! Who is waited for, on a terminal.

use std::future::pending;

use syncguard::DynBackend;

use super::options::Wish;
use crate::output::Output;

/// What is shown while the lock is waited for.
pub(super) struct Waiting<'a> {
    backend: &'a DynBackend,
    wish: &'a Wish,
    output: Output,
}

impl<'a> Waiting<'a> {
    pub(super) fn new(backend: &'a DynBackend, wish: &'a Wish, output: Output) -> Self {
        Self { backend, wish, output }
    }

    /// Never ends.
    #[cfg(not(feature = "terminal"))]
    pub(super) async fn show(&self) {
        let _ = (self.backend, self.wish, self.output);
        pending().await
    }

    /// Never ends. Dropped, it leaves nothing on the screen.
    #[cfg(feature = "terminal")]
    pub(super) async fn show(&self) {
        use std::time::Duration;

        use indicatif::{ProgressBar, ProgressStyle};
        use tokio::time::sleep;

        if !self.wish.waits() || !self.output.is_watched() {
            return pending().await;
        }
        // Most locks are free.
        sleep(Duration::from_millis(300)).await;
        let spinner = Spinner(ProgressBar::new_spinner());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
            spinner.0.set_style(style);
        }
        spinner.0.set_message("waiting for the lock");
        let mut ticks = 0_u32;
        loop {
            if ticks.is_multiple_of(50) {
                spinner.0.set_message(self.holder().await);
            }
            spinner.0.tick();
            ticks += 1;
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Asked every few seconds, so that it costs the store nothing.
    #[cfg(feature = "terminal")]
    async fn holder(&self) -> String {
        use syncguard::get_by_key;

        use crate::time::{human, since};

        let unknown = || "waiting for the lock".to_owned();
        if self.wish.permits.is_some() {
            return "waiting for a permit".to_owned();
        }
        let Ok(key) = self.wish.config.key() else { return unknown() };
        match get_by_key(self.backend, key.clone()).await {
            // Short: a line that is wrapped cannot be taken back.
            Ok(Some(info)) => format!(
                "waiting for {:.12}, who has had the lock for {}",
                info.lock_id_hash().to_string(),
                human(since(info.acquired_at))
            ),
            _ => unknown(),
        }
    }
}

#[cfg(feature = "terminal")]
struct Spinner(indicatif::ProgressBar);

#[cfg(feature = "terminal")]
impl Drop for Spinner {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
