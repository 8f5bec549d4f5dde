//! The members of the cluster, one of which serves all calls until it fails.
//!
//! A balancer over all members would pick a dead one again and again. So each member has a channel of its own, and the first
//! failure leaves the member aside at once.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use syncguard_core::LockError;
use syncguard_core::authoring::pause::random_part;
use syncguard_core::authoring::{Connection, FailureSubject, Fault, Finding, LookLimit};
use tokio::time::Instant;

use crate::service::{Cluster, Service};

/// The members, which the clones of a backend share.
pub(crate) struct Members {
    cluster: Arc<dyn Cluster>,
    /// The channel of the member that serves.
    pub(crate) current: Connection<Member>,
    /// When each member was left aside last.
    aside: Mutex<Vec<Option<Instant>>>,
    looks: LookLimit,
    explained: LookLimit,
}

#[derive(Clone)]
pub(crate) struct Member {
    pub(crate) service: Arc<dyn Service>,
    index: usize,
}

pub(crate) type Loan = syncguard_core::authoring::Loan<Member>;

impl Members {
    /// The first member is drawn, so that the clients of a cluster spread over its members.
    pub(crate) fn new(cluster: Arc<dyn Cluster>) -> Result<Self, LockError> {
        let count = cluster.members();
        let drawn = random_part(Duration::from_nanos(count as u64 * 1000)).as_nanos() / 1000;
        let index = usize::try_from(drawn).unwrap_or_default() % count;
        Ok(Self {
            current: Connection::new(Member { service: cluster.connect(index)?, index }),
            cluster,
            aside: Mutex::new(vec![None; count]),
            looks: LookLimit::new(),
            explained: LookLimit::new(),
        })
    }

    /// Goes on to another member if the fault says so.
    pub(crate) fn act_on(&self, fault: &Fault, loan: &Loan) {
        match fault.subject {
            FailureSubject::Request => self.current.hears(),
            _ if fault.finding == Some(Finding::RuntimeEnded) => {
                self.replace(loan, loan.service.index);
            }
            // The connection serves other calls.
            FailureSubject::Connection if fault.is_timeout() && !self.current.is_silent(loan) => {}
            _ => self.leave(loan),
        }
    }

    /// The current member's answer over HTTP, where the member can be reached.
    pub(crate) async fn get(&self, path: &'static str) -> Option<String> {
        self.cluster.get(self.current.lend().service.index, path).await
    }

    /// The number of members.
    pub(crate) fn count(&self) -> usize {
        self.cluster.members()
    }

    /// The reason why a call that was not carried out found no connection, if it is a mistake in the URL or in a certificate.
    /// `goes_on` is true if another member has just been explained; else the question is asked at most once a second.
    pub(crate) async fn explain(
        &self,
        fault: &Fault,
        loan: &Loan,
        goes_on: bool,
    ) -> Option<LockError> {
        let may_be = fault.subject == FailureSubject::Connection
            && fault.finding.is_none()
            && !fault.is_timeout()
            && !fault.error.is_outcome_unknown();
        if !may_be || !(goes_on || self.explained.permits()) {
            return None;
        }
        self.cluster.explain(loan.service.index).await
    }

    /// Leaves a member aside: the next one is the member that has not failed, or failed longest ago. A single member gets a
    /// new channel, at most once a second.
    pub(crate) fn leave(&self, loan: &Loan) {
        if !self.current.is_current(loan) {
            return;
        }
        let index = loan.service.index;
        let next = {
            let mut aside = self.aside.lock().unwrap_or_else(PoisonError::into_inner);
            let count = aside.len();
            if let Some(since) = aside.get_mut(index) {
                *since = Some(Instant::now());
            }
            let others = (1..count).map(|step| (index + step) % count);
            others.min_by_key(|member| aside.get(*member).copied())
        };
        match next {
            Some(next) => self.replace(loan, next),
            None if self.looks.permits() => self.replace(loan, index),
            None => {}
        }
    }

    /// Puts a new channel in the place of the loan's, in the runtime of the caller.
    fn replace(&self, loan: &Loan, index: usize) {
        match self.cluster.connect(index) {
            Ok(service) => self.current.replace(loan, Member { service, index }),
            Err(error) => tracing::debug!(%error, "no new channel to etcd"),
        }
    }
}

#[cfg(test)]
mod tests {
    use syncguard_core::ErrorCode;

    use super::*;
    use crate::EtcdOptions;
    use crate::connect::Connector;

    fn members(count: u16) -> Members {
        let options = EtcdOptions {
            members: (0..count).map(|port| ("127.0.0.1".to_owned(), port + 1)).collect(),
            ..EtcdOptions::new()
        };
        Members::new(Arc::new(Connector::new(&options).unwrap())).unwrap()
    }

    fn fail(members: &Members, loan: &Loan) {
        let error = LockError::new(ErrorCode::ServiceUnavailable, "x");
        members.act_on(&Fault::new(error, FailureSubject::Server), loan);
    }

    #[tokio::test(start_paused = true)]
    async fn each_failure_leads_to_the_member_that_failed_longest_ago() {
        let members = members(3);
        let index = || members.current.lend().service.index;
        let first = members.current.lend();
        for step in 0..5 {
            assert_eq!(index(), (first.service.index + step) % 3);
            tokio::time::advance(Duration::from_millis(1)).await;
            fail(&members, &members.current.lend());
        }
        let last = index();
        fail(&members, &first);
        assert_eq!(index(), last, "an old failure says nothing");
    }

    #[tokio::test(start_paused = true)]
    async fn a_silence_counts_unless_others_were_answered() {
        let members = members(2);
        let loan = members.current.lend();
        members.current.hears();
        members.act_on(&Fault::timed_out(false), &loan);
        assert!(members.current.is_current(&loan));
        members.act_on(&Fault::timed_out(false), &members.current.lend());
        assert!(!members.current.is_current(&loan));
    }

    #[tokio::test(start_paused = true)]
    async fn a_single_member_gets_a_new_channel_once_a_second() {
        let members = members(1);
        for (pause, is_new) in [(0, true), (999, false), (1, true)] {
            tokio::time::advance(Duration::from_millis(pause)).await;
            let loan = members.current.lend();
            fail(&members, &loan);
            assert_eq!(members.current.is_current(&loan), !is_new);
        }
    }
}
