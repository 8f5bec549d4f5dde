//! The state that all operations share: connections, layout, clocks of the servers, signals.

use std::time::Duration;

use fred::types::Value;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use syncguard_core::authoring::StoreClock;
use syncguard_core::authoring::cancel::ExtendBatches;
use syncguard_core::shared::ClientState;
use syncguard_core::{ErrorCode, LockError, Timestamp, Ttl};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::client::{Bound, Connections, OnLoss};
use crate::config::{RedisOptions, WaitReplicas};
use crate::connection_name::ConnectionName;
use crate::driver::{Call, Target};
use crate::layout::Layout;
use crate::signals::Signals;
use crate::{durability, reply};

pub(crate) struct Inner {
    pub(crate) connections: Connections,
    pub(crate) layout: Layout,
    /// A clock for each section, because sections may be on different servers.
    clocks: Box<[StoreClock]>,
    pub(crate) client_state: ClientState,
    pub(crate) extends: ExtendBatches,
    pub(crate) signals: Signals,
    pub(crate) wait_replicas: Option<WaitReplicas>,
    pub(crate) cleanup_in_is_locked: bool,
    strict_durability: bool,
    /// Set when the server has passed the check for strict durability.
    is_durable: OnceCell<()>,
    /// Set when the server turned out to be no node of a cluster.
    is_no_cluster_node: OnceCell<()>,
}

/// The answer of a script that writes.
pub(crate) struct Answer {
    pub(crate) value: Value,
    /// An error if too few replicas have the script's writes.
    pub(crate) replicated: Result<(), LockError>,
    /// When the script was sent.
    pub(crate) sent: Instant,
    was_sent_twice: bool,
}

impl Answer {
    /// The answer, or an error if the script may have been sent twice and this answer is not certain by itself.
    ///
    /// On a cluster, fred resends a command to another node if the first node goes away before it answers. The
    /// first node may still run the command after the second node has answered.
    pub(crate) fn final_answer(
        self,
        is_certain: impl FnOnce(&Value) -> bool,
    ) -> Result<Self, LockError> {
        if self.was_sent_twice && !is_certain(&self.value) { Err(sent_twice()) } else { Ok(self) }
    }
}

impl Inner {
    pub(crate) fn new(
        connections: Connections,
        layout: Layout,
        options: RedisOptions,
    ) -> Result<Self, LockError> {
        let wait_replicas = options.wait();
        let client_state = options.client.client_state()?;
        let name = ConnectionName::of(client_state.holder());
        Ok(Self {
            signals: Signals::new(&connections, options.connect_timeout, name),
            clocks: layout.sections().iter().map(|_| StoreClock::default()).collect(),
            connections,
            layout,
            wait_replicas,
            cleanup_in_is_locked: options.cleanup_in_is_locked,
            strict_durability: options.strict_durability,
            is_durable: OnceCell::new(),
            is_no_cluster_node: OnceCell::new(),
            client_state,
            extends: ExtendBatches::default(),
        })
    }

    /// Logs how safe locks are on this server. With strict durability, refuses an unsafe server.
    pub(crate) async fn check_durability(&self) -> Result<(), LockError> {
        if self.strict_durability {
            return self.enforce_durability().await;
        }
        match durability::report(&self.connections, &self.layout).await {
            Ok(report) => report.log(self.wait_replicas),
            Err(error) => {
                tracing::warn!(%error, "the durability of locks on this Redis server is unverified");
            }
        }
        Ok(())
    }

    /// With strict durability, checks the server once. Over a client of the program, the first acquire does this.
    pub(crate) async fn enforce_durability(&self) -> Result<(), LockError> {
        if self.strict_durability {
            let check = async || {
                let report = durability::report(&self.connections, &self.layout).await?;
                // A refusal is not logged: the error says it.
                report.enforce(self.wait_replicas).inspect(|()| report.log(self.wait_replicas))
            };
            // Boxed, as each rare future here: every request would be as large.
            Box::pin(self.is_durable.get_or_try_init(check)).await?;
        }
        Ok(())
    }

    /// With an untagged prefix, refuses a cluster node over a client of this node alone: clients of the whole cluster
    /// have their locks elsewhere.
    ///
    /// An acquire need not call this: a cluster node refuses names in several slots by itself.
    pub(crate) async fn refuse_cluster_node(&self) -> Result<(), LockError> {
        if self.connections.is_clustered() || self.layout.is_tagged() {
            return Ok(());
        }
        if !self.is_no_cluster_node.initialized() {
            let check = || durability::refuse_cluster_node(&self.connections);
            Box::pin(self.is_no_cluster_node.get_or_try_init(check)).await?;
        }
        Ok(())
    }

    /// Runs a script that writes, with a deadline after which the server refuses it.
    ///
    /// `sends` gets the deadline and the time to wait for an answer, before each sending. If the server refuses, its clock
    /// was set since its last answer, or the slot has moved to a server with another clock: the script is sent again while
    /// there is time, at most three times.
    pub(crate) async fn write(
        &self,
        target: Target,
        call: impl Fn(Timestamp) -> Result<Call, LockError>,
        wait: Option<WaitReplicas>,
        on_loss: OnLoss,
        sends: impl Fn(Timestamp, Duration) -> Result<(), LockError>,
    ) -> Result<Answer, LockError> {
        let timeout = self.connections.command_timeout();
        let until = Instant::now() + timeout;
        let (mut bound, mut left) = (Bound::Usual(until), timeout);
        let clock = self.clock(target);
        if clock.deadline(left).is_none() {
            Box::pin(self.ask_time(target, until)).await?;
            (bound, left) = (Bound::Exact(until), remaining(until));
        }
        for _ in 0..4 {
            let deadline = clock.deadline(left).ok_or_else(reply::unintelligible)?;
            sends(deadline, left)?;
            let call = || call(deadline);
            let sent = self.connections.send(target, call, wait, bound, on_loss).await;
            let was_sent_twice = sent.was_sent_twice;
            let (value, replicated) = sent.result.map_err(|error| {
                if was_sent_twice { error.with_unknown_outcome() } else { error }
            })?;
            let Some(time) = reply::refused_at(&value) else {
                return Ok(Answer { value, replicated, sent: sent.at, was_sent_twice });
            };
            if was_sent_twice {
                return Err(sent_twice());
            }
            clock.learn(sent.at, time);
            (bound, left) = (Bound::Exact(until), remaining(until));
            if left.is_zero() {
                break;
            }
        }
        Err(LockError::new(
            ErrorCode::NetworkTimeout,
            "the request reached the server after its deadline, and was refused: its way took too long, as while a slot \
             of a cluster moves, or the server's clock was set",
        ))
    }

    /// Learns the server's time. Sends `TIME` alone, which changes nothing.
    pub(crate) async fn ask_time(&self, target: Target, until: Instant) -> Result<(), LockError> {
        let sent = Instant::now();
        let answer = self.connections.ask(target, "TIME", until).await?;
        let time = reply::time(&answer).ok_or_else(|| {
            LockError::new(ErrorCode::Internal, "the server's answer to TIME makes no sense")
        })?;
        self.clock(target).learn(sent, time);
        Ok(())
    }

    /// Learns the time of all servers at once. After a failure, the first write to that server asks again.
    pub(crate) async fn ask_times(&self) {
        let until = Instant::now() + self.connections.command_timeout();
        let mut asking: FuturesUnordered<_> = self
            .layout
            .sections()
            .iter()
            .map(|section| self.ask_time(section.target(), until))
            .collect();
        while asking.next().await.is_some() {}
    }

    /// The clock of the server that has the section.
    pub(crate) fn clock(&self, target: Target) -> &StoreClock {
        self.clocks.get(target.section).unwrap_or(&self.clocks[0])
    }

    /// Learns the server's time from the expiry that the server has just given a lock.
    pub(crate) fn learn_from_expiry(
        &self,
        target: Target,
        sent: Instant,
        expires_at: Timestamp,
        ttl: Ttl,
    ) {
        let time = expires_at.as_millis().checked_sub(ttl.as_millis());
        if let Some(Ok(time)) = time.map(Timestamp::from_millis) {
            self.clock(target).learn(sent, time);
        }
    }
}

fn remaining(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}

fn sent_twice() -> LockError {
    LockError::new(
        ErrorCode::ServiceUnavailable,
        "the request may have been sent twice, because its connection was lost or a node of the cluster came or went",
    )
    .with_unknown_outcome()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_to_the_second_sending_counts_only_if_it_is_certain() {
        let answer = |number: i64, was_sent_twice| Answer {
            value: Value::Integer(number),
            replicated: Ok(()),
            sent: Instant::now(),
            was_sent_twice,
        };
        // The first sending may have released the lock, so "not held" is not the whole truth.
        let release = |answer: Answer| answer.final_answer(reply::is_released);
        assert!(release(answer(1, true)).is_ok() && release(answer(0, false)).is_ok());
        let error = release(answer(0, true)).err().unwrap();
        assert!(error.is_outcome_unknown() && error.is_retryable(), "{error:?}");
    }
}
