//! Cancelling a statement until the server has answered.

use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::{Client, Error};

use crate::cancel_request::{CancelRequests, Delivery};

/// For how long no request reaches the server before its sessions are taken for gone. New ones cannot
/// be opened there either.
const LONGEST_UNREACHABLE: Duration = Duration::from_secs(30);

/// How long a request may take beyond the answer before nobody waits for it any more.
const LONGEST_SETTLING: Duration = Duration::from_millis(1500);

/// How the wait for an answer ended.
pub(super) enum End {
    /// The connection is as good as new.
    Clean,
    /// The connection is gone, or has to go.
    Lost,
}

impl End {
    fn of(answer: &Result<(), Error>) -> Self {
        if answer.is_ok() { Self::Clean } else { Self::Lost }
    }
}

/// Cancels what the connection is doing, again and again, until it has answered.
pub(super) async fn answer(client: &Client, cancel: Option<&CancelRequests>) -> End {
    // The server answers in order: first the statement, then this.
    let mut answer = pin!(client.check_connection());
    let Some(cancel) = cancel else { return End::of(&answer.await) };
    let mut pauses = Pauses::default();
    let mut reached = Instant::now();
    // Whether all requests are known to be over.
    let mut settled = true;
    let end = loop {
        let mut request = cancel.send(client.cancel_token());
        let delivery = tokio::select! {
            biased;
            answer = &mut answer => {
                let delivery = timeout(LONGEST_SETTLING, request).await;
                settled &= matches!(delivery, Ok(Ok(delivery)) if delivery != Delivery::Sent);
                break End::of(&answer);
            }
            delivery = &mut request => delivery.unwrap_or(Delivery::Sent),
        };
        settled &= delivery != Delivery::Sent;
        if delivery != Delivery::Unreachable {
            reached = Instant::now();
        }
        if let Ok(answer) = timeout(pauses.after(delivery), &mut answer).await {
            break End::of(&answer);
        }
        if reached.elapsed() > LONGEST_UNREACHABLE {
            return End::Lost;
        }
    };
    match cancel.rest {
        _ if settled => {}
        Some(rest) => sleep(rest).await,
        None => return End::Lost,
    }
    end
}

/// How long to wait before the next request.
struct Pauses {
    /// The last one did not reach the server.
    missed: Duration,
    /// It did, and was of no use. It can overtake the statement that it is meant for.
    useless: Duration,
}

impl Default for Pauses {
    fn default() -> Self {
        Self { missed: Duration::from_millis(100), useless: Duration::from_millis(500) }
    }
}

impl Pauses {
    fn after(&mut self, delivery: Delivery) -> Duration {
        const LONGEST_MISSED: Duration = Duration::from_secs(1);
        const LONGEST_USELESS: Duration = Duration::from_secs(10);
        let pause;
        if delivery == Delivery::Unreachable {
            pause = self.missed;
            self.missed = (pause * 2).min(LONGEST_MISSED);
        } else {
            pause = self.useless;
            // A server that stands still has a queue of 200 connections by default, and other users.
            self.useless = (pause * 4).min(LONGEST_USELESS);
        }
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::{Delivery, Pauses};

    #[test]
    fn pauses_grow_to_their_ends() {
        let mut pauses = Pauses::default();
        let mut after = |delivery| pauses.after(delivery).as_millis();
        let missed = [100, 200, 400, 800, 1000, 1000].map(|_| after(Delivery::Unreachable));
        assert_eq!(missed, [100, 200, 400, 800, 1000, 1000]);
        let useless = [500, 2000, 8000, 10_000, 10_000].map(|_| after(Delivery::Done));
        assert_eq!(useless, [500, 2000, 8000, 10_000, 10_000]);
    }
}
