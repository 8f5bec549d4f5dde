//! The members of the cluster, one of which serves all calls until it fails.
//!
//! A balancer over all members would pick a dead one again and again. So each member has a channel of its own, and the first
//! failure leaves the member aside at once.

#[cfg(feature = "test-util")]
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use syncguard_core::LockError;
use syncguard_core::authoring::pause::random_part;
use syncguard_core::authoring::{FailureSubject, LookLimit};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::connect::Connector;
use crate::error::{Fault, Finding};
use crate::http_date;
use crate::service::Service;
#[cfg(feature = "test-util")]
use crate::simulated::calls::Calls;

/// The members, which the clones of a backend share.
pub(crate) struct Members {
    maker: Maker,
    current: watch::Sender<Current>,
    /// When each member was left aside last.
    aside: Mutex<Vec<Option<Instant>>>,
    looks: LookLimit,
    /// How many answers have come.
    heard: AtomicU64,
}

/// Makes services, each with a connection of its own.
pub(crate) enum Maker {
    Grpc(Connector),
    #[cfg(feature = "test-util")]
    Simulated(Arc<dyn Calls>),
}

/// The member that serves, and the number of its channel.
#[derive(Clone)]
pub(crate) struct Current {
    pub(crate) service: Service,
    member: usize,
    number: u64,
}

/// A service for one call.
pub(crate) struct Loan {
    pub(crate) service: Service,
    member: usize,
    number: u64,
    heard: u64,
}

impl Members {
    /// The first member is drawn, so that the clients of a cluster spread over its members.
    pub(crate) fn new(maker: Maker) -> Result<Self, LockError> {
        let count = maker.members();
        let drawn = random_part(Duration::from_nanos(count as u64 * 1000)).as_nanos() / 1000;
        let member = usize::try_from(drawn).unwrap_or_default() % count;
        let current = Current { service: maker.make(member)?, member, number: 0 };
        Ok(Self {
            maker,
            current: watch::Sender::new(current),
            aside: Mutex::new(vec![None; count]),
            looks: LookLimit::new(),
            heard: AtomicU64::new(0),
        })
    }

    pub(crate) fn lend(&self) -> Loan {
        let Current { service, member, number } = self.current.borrow().clone();
        Loan { service, member, number, heard: self.heard.load(Ordering::Relaxed) }
    }

    /// Notes an answer.
    pub(crate) fn hears(&self) {
        self.heard.fetch_add(1, Ordering::Relaxed);
    }

    /// How many answers have come.
    #[cfg(feature = "test-util")]
    pub(crate) fn answers(&self) -> u64 {
        self.heard.load(Ordering::Relaxed)
    }

    /// The current member, and the news of others that take its place.
    pub(crate) fn follow(&self) -> watch::Receiver<Current> {
        self.current.subscribe()
    }

    /// Goes on to another member if the fault says so.
    pub(crate) fn act_on(&self, fault: &Fault, loan: &Loan) {
        match fault.subject {
            FailureSubject::Request => self.hears(),
            _ if fault.finding == Some(Finding::RuntimeEnded) => self.replace(loan, loan.member),
            // The connection serves other calls.
            FailureSubject::Connection if fault.is_timeout() && !self.is_silent(loan) => {}
            FailureSubject::Connection | FailureSubject::Server => self.leave(loan),
        }
    }

    /// The Unix second that the current member's clock shows, where its `/version` can be reached.
    pub(crate) async fn date(&self) -> Option<i64> {
        #[cfg(feature = "test-util")]
        if let Maker::Simulated(calls) = &self.maker {
            return calls.date().await.ok();
        }
        http_date::of_answer(&self.get("/version").await?)
    }

    /// The current member's answer over HTTP, where the member can be reached.
    pub(crate) async fn get(&self, path: &str) -> Option<String> {
        let member = self.current.borrow().member;
        match &self.maker {
            Maker::Grpc(connector) => connector.get(member, path).await,
            #[cfg(feature = "test-util")]
            Maker::Simulated(_) => None,
        }
    }

    /// True if no call has got an answer since this loan.
    fn is_silent(&self, loan: &Loan) -> bool {
        self.heard.load(Ordering::Relaxed) == loan.heard
    }

    /// Leaves a member aside: the next one is the member that has not failed, or failed longest ago. A single member gets a
    /// new channel, at most once a second.
    fn leave(&self, loan: &Loan) {
        if self.current.borrow().number != loan.number {
            return;
        }
        let next = {
            let mut aside = self.aside.lock().unwrap_or_else(PoisonError::into_inner);
            let count = aside.len();
            if let Some(since) = aside.get_mut(loan.member) {
                *since = Some(Instant::now());
            }
            let others = (1..count).map(|step| (loan.member + step) % count);
            others.min_by_key(|member| aside.get(*member).copied())
        };
        match next {
            Some(next) => self.replace(loan, next),
            None if self.looks.permits() => self.replace(loan, loan.member),
            None => {}
        }
    }

    /// Puts a new channel in the place of the loan's, in the runtime of the caller. Calls on the old channel go on.
    fn replace(&self, loan: &Loan, member: usize) {
        match self.maker.make(member) {
            Ok(service) => {
                self.current.send_if_modified(|current| {
                    let is_current = current.number == loan.number;
                    if is_current {
                        *current = Current { service, member, number: loan.number + 1 };
                    }
                    is_current
                });
            }
            Err(error) => tracing::debug!(%error, "no new channel to etcd"),
        }
    }
}

impl Maker {
    fn members(&self) -> usize {
        match self {
            Self::Grpc(connector) => connector.members(),
            #[cfg(feature = "test-util")]
            Self::Simulated(_) => 1,
        }
    }

    fn make(&self, member: usize) -> Result<Service, LockError> {
        match self {
            Self::Grpc(connector) => connector.channel(member).map(Service::Grpc),
            #[cfg(feature = "test-util")]
            Self::Simulated(calls) => {
                calls.replace();
                Ok(Service::Simulated(Arc::clone(calls)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use syncguard_core::ErrorCode;

    use super::*;
    use crate::EtcdOptions;
    use crate::error::{Rpc, timed_out};

    fn members(count: u16) -> Members {
        let options = EtcdOptions {
            members: (0..count).map(|port| ("127.0.0.1".to_owned(), port + 1)).collect(),
            ..EtcdOptions::new()
        };
        Members::new(Maker::Grpc(Connector::new(&options).unwrap())).unwrap()
    }

    fn cut_off() -> Fault {
        let error = LockError::new(ErrorCode::ServiceUnavailable, "x");
        Fault { subject: FailureSubject::Server, ..Fault::from(error) }
    }

    #[tokio::test(start_paused = true)]
    async fn each_failure_leads_to_the_member_that_failed_longest_ago() {
        let members = members(3);
        let first = members.lend();
        let mut seen = vec![first.member];
        for _ in 0..5 {
            tokio::time::advance(Duration::from_millis(1)).await;
            members.act_on(&cut_off(), &members.lend());
            seen.push(members.lend().member);
        }
        let expected: Vec<_> = (0..6).map(|step| (first.member + step) % 3).collect();
        assert_eq!(seen, expected);
        members.act_on(&cut_off(), &first);
        assert_eq!(members.lend().member, seen[5], "an old failure says nothing");
    }

    #[tokio::test(start_paused = true)]
    async fn a_silence_counts_unless_others_were_answered() {
        let members = members(2);
        let loan = members.lend();
        members.hears();
        members.act_on(&timed_out(Rpc::Read), &loan);
        assert_eq!(members.lend().number, 0);
        members.act_on(&timed_out(Rpc::Read), &members.lend());
        assert_eq!(members.lend().number, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_single_member_gets_a_new_channel_once_a_second() {
        let members = members(1);
        for (number, pause) in [(1, 0), (1, 999), (2, 1)] {
            tokio::time::advance(Duration::from_millis(pause)).await;
            members.act_on(&cut_off(), &members.lend());
            assert_eq!((members.lend().member, members.lend().number), (0, number));
        }
    }
}
