//! What all operations share: the connections, the names of records, and the server's clock.

use std::time::Duration;

use fred::types::Value;
use syncguard_core::authoring::StoreClock;
use syncguard_core::{ClientState, ErrorCode, LockError, Timestamp, Ttl};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::client::{Bound, Call, Connections};
use crate::config::{RedisOptions, WaitReplicas};
use crate::names::Layout;
use crate::signals::Signals;
use crate::{durability, reply};

pub(crate) struct Inner {
    pub(crate) connections: Connections,
    pub(crate) layout: Layout,
    pub(crate) clock: StoreClock,
    pub(crate) client_state: ClientState,
    pub(crate) signals: Signals,
    pub(crate) wait_replicas: Option<WaitReplicas>,
    pub(crate) cleanup_in_is_locked: bool,
    strict_durability: bool,
    /// Set once the server was found good enough for strict durability.
    checked: OnceCell<()>,
}

/// What a script that writes has answered.
pub(crate) struct Answer {
    pub(crate) value: Value,
    /// Whether enough replicas have what it wrote.
    pub(crate) replicated: Result<(), LockError>,
    /// When it was sent.
    pub(crate) sent: Instant,
    may_run_again: bool,
}

impl Answer {
    /// The answer, if it is the last word.
    ///
    /// On a cluster, the driver sends a command again to another node if the first node goes away before it
    /// answers. The first node may still carry it out after the second one has answered.
    pub(crate) fn settled(self) -> Result<Self, LockError> {
        if self.may_run_again { Err(sent_twice()) } else { Ok(self) }
    }
}

impl Inner {
    pub(crate) fn new(
        connections: Connections,
        layout: Layout,
        options: RedisOptions,
    ) -> Result<Self, LockError> {
        Ok(Self {
            signals: connections.signals(options.connect_timeout),
            connections,
            layout,
            clock: StoreClock::new(),
            wait_replicas: options.wait_replicas,
            cleanup_in_is_locked: options.cleanup_in_is_locked,
            strict_durability: options.strict_durability,
            checked: OnceCell::new(),
            client_state: options.client_state()?,
        })
    }

    /// Says in the log how safe locks are on this server. With strict durability, refuses one that is not.
    pub(crate) async fn check_durability(&self) -> Result<(), LockError> {
        if self.strict_durability {
            return self.refuse_forgetful_server().await;
        }
        match durability::report(&self.connections).await {
            Ok(report) => report.log(self.wait_replicas),
            Err(error) => {
                tracing::warn!(%error, "the durability of locks on this Redis server is unverified");
            }
        }
        Ok(())
    }

    /// With strict durability, the first acquire over a client of the program finds out what the server is.
    pub(crate) async fn refuse_forgetful_server(&self) -> Result<(), LockError> {
        if self.strict_durability {
            let check = async || {
                let report = durability::report(&self.connections).await?;
                // What is refused is said by the error alone.
                report.enforce(self.wait_replicas).inspect(|()| report.log(self.wait_replicas))
            };
            self.checked.get_or_try_init(check).await?;
        }
        Ok(())
    }

    /// Runs a script that writes, with a deadline after which the server refuses it.
    ///
    /// `sends` is told of the deadline before each sending, and of how long the answer is waited for. If
    /// the server refuses, its clock was set since we last heard of it, and the script is sent once more.
    pub(crate) async fn write<'a, const K: usize, const A: usize>(
        &self,
        call: impl Fn(Timestamp) -> Result<Call<'a, K, A>, LockError>,
        wait: Option<WaitReplicas>,
        sends: impl Fn(Timestamp, Duration) -> Result<(), LockError>,
    ) -> Result<Answer, LockError> {
        let timeout = self.connections.command_timeout();
        let until = Instant::now() + timeout;
        let (mut bound, mut left) = (Bound::Usual(until), timeout);
        if self.clock.deadline(left).is_none() {
            self.ask_time(until).await?;
            (bound, left) = (Bound::Exact(until), remaining(until));
        }
        for _ in 0..2 {
            let deadline = self.clock.deadline(left).ok_or_else(reply::unintelligible)?;
            sends(deadline, left)?;
            let call = || call(deadline);
            let sent = self.connections.send(call, wait, bound).await;
            let may_run_again = sent.may_run_again;
            let (value, replicated) = sent.result.map_err(|error| {
                if may_run_again { error.with_unknown_outcome() } else { error }
            })?;
            let Some(time) = reply::refused_at(&value) else {
                return Ok(Answer { value, replicated, sent: sent.at, may_run_again });
            };
            if may_run_again {
                return Err(sent_twice());
            }
            self.clock.learn(sent.at, time);
            (bound, left) = (Bound::Exact(until), remaining(until));
            if left.is_zero() {
                break;
            }
        }
        Err(LockError::new(
            ErrorCode::NetworkTimeout,
            "the request reached the server after its deadline, and was refused; maybe the server's \
             clock was set",
        ))
    }

    /// Learns the server's time. Nothing else is asked for, so nothing can be left behind.
    pub(crate) async fn ask_time(&self, until: Instant) -> Result<(), LockError> {
        let sent = Instant::now();
        let answer = self.connections.ask("TIME", until).await?;
        let time = reply::time(&answer).ok_or_else(|| {
            LockError::new(ErrorCode::Internal, "the server's answer to TIME makes no sense")
        })?;
        self.clock.learn(sent, time);
        Ok(())
    }

    /// Learns the server's time from the expiry that it has just given a lock.
    pub(crate) fn learn_from_expiry(&self, sent: Instant, expires_at: Timestamp, ttl: Ttl) {
        let time = expires_at.as_millis().checked_sub(ttl.as_millis());
        if let Some(Ok(time)) = time.map(Timestamp::from_millis) {
            self.clock.learn(sent, time);
        }
    }
}

fn remaining(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}

fn sent_twice() -> LockError {
    LockError::new(
        ErrorCode::ServiceUnavailable,
        "a node joined or left the cluster, and the request may have been sent to two of them",
    )
    .with_unknown_outcome()
}
