//! Cancels a statement until the server has answered.

use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tokio_postgres::Client;

use crate::cancel_request::{CancelRequests, Delivery};

/// If no request reaches the server for so long, its sessions are taken for gone. New sessions cannot be
/// opened there either.
const LONGEST_UNREACHABLE: Duration = Duration::from_secs(30);

/// The time from the sending of a request to its arrival at the session: one way over the network, and the
/// start of a process in the server.
const LONGEST_WAY: Duration = Duration::from_millis(250);

/// The longest rest, however many requests were sent.
const LONGEST_REST: Duration = Duration::from_secs(1);

/// How the wait for an answer ended.
pub(super) enum End {
    /// The connection is as good as new after this rest. A request that reaches an idle session has no
    /// effect; without the rest, it could end the next statement. A server that stood still works off the
    /// requests one after the other, so the rest grows with their number.
    Clean { rest: Duration },
    /// The connection is gone, or has to go.
    Lost,
}

/// Cancels the statement of the connection, again and again, until the server has answered.
pub(super) async fn answer(client: &Client, cancel: Option<&CancelRequests>) -> End {
    // The server answers in order: first the statement, then this.
    let mut answer = pin!(client.check_connection());
    let mut pauses = Pauses::default();
    let mut reached = Instant::now();
    let mut sent = 0;
    let answer = loop {
        let Some(cancel) = cancel else { break answer.await };
        let delivery = tokio::select! {
            biased;
            answer = &mut answer => {
                // The request that is dropped here may have been sent.
                sent += 1;
                break answer;
            }
            delivery = cancel.send(client.cancel_token()) => delivery,
        };
        sent += u32::from(delivery == Delivery::Sent);
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
        Ok(()) => End::Clean { rest: rest_after(sent) },
        Err(_) => End::Lost,
    }
}

fn rest_after(sent: u32) -> Duration {
    LONGEST_WAY.saturating_mul(sent).min(LONGEST_REST)
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
    use super::{Delivery, Pauses, rest_after};

    #[test]
    fn pauses_grow_to_their_ends() {
        let mut pauses = Pauses::default();
        let mut after = |delivery| pauses.after(delivery).as_millis();
        let missed = [100, 200, 400, 800, 1000, 1000].map(|_| after(Delivery::Unreachable));
        assert_eq!(missed, [100, 200, 400, 800, 1000, 1000]);
        let useless = [500, 2000, 8000, 10_000, 10_000].map(|_| after(Delivery::Sent));
        assert_eq!(useless, [500, 2000, 8000, 10_000, 10_000]);
    }

    #[test]
    fn a_session_rests_for_each_request_that_may_come() {
        let rests = [0, 1, 2, 4, u32::MAX].map(|sent| rest_after(sent).as_millis());
        assert_eq!(rests, [0, 250, 500, 1000, 1000]);
    }
}
