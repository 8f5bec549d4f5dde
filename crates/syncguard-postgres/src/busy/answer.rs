//! Cancels a statement until the server has answered.

use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tokio_postgres::Client;

use crate::cancel_request::{CancelRequests, Delivery};

/// If no request reaches the server for so long, its sessions are taken for gone. New sessions cannot be
/// opened there either.
const LONGEST_UNREACHABLE: Duration = Duration::from_secs(30);

/// How the wait for an answer ended.
pub(super) enum End {
    /// The server answered, and no request was sent: the connection is as good as new.
    Clean,
    /// The server answered, and a request may still be on its way. The request could end the session's next
    /// statement, or stop its wait for a standby. A request for a session that has ended has no effect.
    Cancelled,
    /// The connection is lost, or this process has to close it.
    Lost,
}

/// Cancels the statement of the connection, again and again, until the server has answered.
pub(super) async fn answer(client: &Client, cancel: Option<&CancelRequests>) -> End {
    // The server answers in order: first the statement, then this.
    let mut answer = pin!(client.check_connection());
    let mut pauses = Pauses::default();
    let mut reached = Instant::now();
    let mut is_sent = false;
    let answer = loop {
        let Some(cancel) = cancel else { break answer.await };
        let delivery = tokio::select! {
            biased;
            answer = &mut answer => {
                // The request that is dropped here may have been sent.
                is_sent = true;
                break answer;
            }
            delivery = cancel.send(client.cancel_token()) => delivery,
        };
        is_sent |= delivery == Delivery::Sent;
        if delivery != Delivery::Unreachable {
            reached = Instant::now();
        }
        if let Ok(answer) = timeout(pauses.after(delivery), &mut answer).await {
            break answer;
        }
        if reached.elapsed() > LONGEST_UNREACHABLE {
            return End::Lost;
        }
    };
    match answer {
        Ok(()) if is_sent => End::Cancelled,
        Ok(()) => End::Clean,
        Err(_) => End::Lost,
    }
}

/// The pauses before the next request.
struct Pauses {
    /// After a request that did not reach the server.
    missed: Duration,
    /// After a request that reached the server and had no effect. A request can overtake the statement that
    /// it is meant for.
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
        let useless = [500, 2000, 8000, 10_000, 10_000].map(|_| after(Delivery::Sent));
        assert_eq!(useless, [500, 2000, 8000, 10_000, 10_000]);
    }
}
