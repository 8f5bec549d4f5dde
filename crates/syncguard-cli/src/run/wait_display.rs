//! Shows the holder to a waiter.

use std::future::pending;
use std::time::Duration;

use syncguard::diagnostics::get_by_key;
use syncguard::{DynBackend, LockInfo};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::request::LockRequest;
use crate::holder;
use crate::output::{Output, StatusLine};
use crate::time::human;

/// The display of a waiter: a line that is drawn anew on a terminal, and a line each minute elsewhere. No line shows the
/// key.
pub(super) struct WaitDisplay<'a> {
    backend: &'a DynBackend,
    request: &'a LockRequest,
    output: Output,
}

impl<'a> WaitDisplay<'a> {
    /// Most locks are free, so nothing is shown before this time is over.
    const DELAY: Duration = Duration::from_millis(300);

    /// If nobody seems to hold the lock, the store may be slow, and nothing is shown before this time is over.
    const DELAY_IF_FREE: Duration = Duration::from_secs(1);

    /// The seconds between two look-ups of the holder, which cost the store a request.
    const LOOK_UP_SECONDS: u32 = 5;

    /// The pause between two lines that stay.
    const LINE_PAUSE: Duration = Duration::from_secs(60);

    /// A store that is silent must not hold up the end of a waiter.
    const LONGEST_LOOK: Duration = Duration::from_secs(2);

    pub(super) fn new(backend: &'a DynBackend, request: &'a LockRequest, output: Output) -> Self {
        Self { backend, request, output }
    }

    /// Never completes. Dropping the future clears the line.
    pub(super) async fn show(&self) {
        if !self.request.waits() || self.output.is_quiet() {
            return pending().await;
        }
        let began = Instant::now();
        sleep(Self::DELAY).await;
        match self.output.status_line() {
            Some(line) => self.draw(&line, began).await,
            None => self.tell(began, |line| self.output.note(line)).await,
        }
    }

    async fn draw(&self, line: &StatusLine, began: Instant) {
        let mut holder = self.first_holder(began).await;
        for second in 0_u32.. {
            if second > 0 && second % Self::LOOK_UP_SECONDS == 0 {
                holder = self.holder().await;
            }
            line.show(&self.text(holder.as_ref(), began));
            sleep(Duration::from_secs(1)).await;
        }
    }

    async fn tell(&self, began: Instant, say: impl Fn(String)) {
        let mut holder = self.first_holder(began).await;
        loop {
            say(self.text(holder.as_ref(), began));
            sleep(Self::LINE_PAUSE).await;
            holder = self.holder().await;
        }
    }

    /// The holder that the first line names.
    async fn first_holder(&self, began: Instant) -> Option<LockInfo> {
        if let Some(info) = self.holder().await {
            return Some(info);
        }
        sleep_until(began + Self::DELAY_IF_FREE).await;
        self.holder().await
    }

    /// A sentence that names the present holder, after the message that the lock is held; empty if the holder is not known.
    pub(super) async fn holder_now(&self) -> String {
        if self.output.is_quiet() {
            return String::new();
        }
        let held = timeout(Self::LONGEST_LOOK, self.holder()).await.ok().flatten();
        held.map_or_else(String::new, |info| {
            format!(". The holder is {}", holder::described(&info))
        })
    }

    async fn holder(&self) -> Option<LockInfo> {
        // Each permit and each reader has its own holder, so there is no single holder to show.
        let key = self.request.config.key().ok().filter(|_| self.request.is_plain())?;
        get_by_key(self.backend, key.clone()).await.ok().flatten()
    }

    fn text(&self, holder: Option<&LockInfo>, began: Instant) -> String {
        let waited = human(Duration::from_secs(began.elapsed().as_secs()));
        match holder {
            Some(info) => format!("waiting for {} ({waited} so far)", holder::described(info)),
            None if self.request.permits.is_some() => {
                format!("waiting for a permit ({waited} so far)")
            }
            None => format!("waiting for the lock ({waited} so far)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use syncguard::{LockConfig, acquire};

    use super::*;
    use crate::exit::Status;

    /// The waiter of a free lock whose store is slow.
    #[tokio::test(start_paused = true)]
    async fn a_wait_for_nobody_is_told_after_a_second() {
        let backend = syncguard::connect("memory:").await.unwrap();
        let request = LockRequest::of_lock(LockConfig::new("k"), Status::CONFLICT);
        let display = WaitDisplay::new(&backend, &request, Output::new(false));
        let (said, began) = (RefCell::new(Vec::new()), Instant::now());
        let telling = display.tell(began, |line| said.borrow_mut().push((line, began.elapsed())));
        timeout(Duration::from_secs(59), telling).await.unwrap_err();
        let expected = ("waiting for the lock (1s so far)".to_owned(), Duration::from_secs(1));
        assert_eq!(said.into_inner(), [expected]);
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_terminal_a_waiter_is_told_each_minute() {
        let backend = syncguard::connect("memory:?holder=web-7").await.unwrap();
        let hour = Duration::from_secs(3600);
        let _held = acquire(&backend, LockConfig::new("k").with_ttl(hour)).await.unwrap();
        let request = LockRequest::of_lock(LockConfig::new("k"), Status::CONFLICT);
        let display = WaitDisplay::new(&backend, &request, Output::new(false));
        let lines = RefCell::new(Vec::new());
        let telling = display.tell(Instant::now(), |line| lines.borrow_mut().push(line));
        timeout(Duration::from_secs(125), telling).await.unwrap_err();
        let lines = lines.into_inner();
        assert_eq!(lines.len(), 3, "{lines:?}");
        for (line, waited) in lines.iter().zip(["(0s so far)", "(1m so far)", "(2m so far)"]) {
            assert!(line.starts_with("waiting for web-7, who") && line.ends_with(waited), "{line}");
        }
    }
}
