//! The members of the cluster, one of which serves all calls until it fails.
//!
//! A balancer over all members would pick a dead one again and again. So each member has a channel of its own, and the first
//! failure leaves the member aside at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use syncguard_core::Jitter;
use syncguard_core::authoring::{Connection, FailureSubject, Fault, Finding, LookLimit, SentAt};
use syncguard_core::{ErrorCode, LockError};
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
    /// The id of the cluster of each member, as it has told it last; and the first id that was told.
    clusters: Mutex<(Vec<Option<u64>>, Option<u64>)>,
}

#[derive(Clone)]
pub(crate) struct Member {
    pub(crate) service: Arc<dyn Service>,
    index: usize,
    /// True once an answer over this channel has told the id of the right cluster.
    is_ours: Arc<AtomicBool>,
}

impl Member {
    fn new(service: Arc<dyn Service>, index: usize) -> Self {
        Self { service, index, is_ours: Arc::default() }
    }

    pub(crate) fn is_ours(&self) -> bool {
        self.is_ours.load(Ordering::Relaxed)
    }
}

pub(crate) type Loan = syncguard_core::authoring::Loan<Member>;

impl Members {
    /// The first member is drawn, so that the clients of a cluster spread over its members.
    pub(crate) fn new(cluster: Arc<dyn Cluster>) -> Result<Self, LockError> {
        let count = cluster.members();
        let drawn = Jitter::Full.of(Duration::from_nanos(count as u64 * 1000)).as_nanos() / 1000;
        let index = usize::try_from(drawn).unwrap_or_default() % count;
        Ok(Self {
            current: Connection::new(Member::new(cluster.connect(index)?, index)),
            cluster,
            aside: Mutex::new(vec![None; count]),
            looks: LookLimit::default(),
            explained: LookLimit::default(),
            clusters: Mutex::new((vec![None; count], None)),
        })
    }

    pub(crate) fn count(&self) -> usize {
        self.cluster.members()
    }

    /// Host and port of a member.
    pub(crate) fn name(&self, member: usize) -> String {
        self.cluster.name(member)
    }

    /// A member has told the id of its cluster.
    pub(crate) fn tells(&self, member: usize, cluster: u64) {
        let mut clusters = self.clusters();
        clusters.1.get_or_insert(cluster);
        if let Some(known) = clusters.0.get_mut(member) {
            *known = Some(cluster);
        }
    }

    /// The cluster of each member, as far as it is known.
    pub(crate) fn clusters(&self) -> MutexGuard<'_, (Vec<Option<u64>>, Option<u64>)> {
        self.clusters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks that all members that have told the id of their cluster are members of one.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` with both ids.
    pub(crate) fn check(&self) -> Result<(), LockError> {
        let (known, first) = &*self.clusters();
        let other = known.iter().flatten().find(|known| Some(**known) != *first);
        other.zip(*first).map_or(Ok(()), |(other, first)| Err(two_clusters(first, *other)))
    }

    /// Checks the answer to a call: a member of another cluster has other locks, and is left aside.
    pub(crate) fn answers(&self, loan: &Loan, cluster: u64) -> Result<(), Fault> {
        self.tells(loan.service.index, cluster);
        let first = self.clusters().1.unwrap_or(cluster);
        if cluster != first {
            self.leave(loan);
            return Err(two_clusters(first, cluster).into());
        }
        loan.service.is_ours.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// The status of a member over HTTP, which tells its time and its cluster, and when the request was sent.
    pub(crate) async fn ask(&self, member: usize) -> Option<(SentAt, String)> {
        self.cluster.get(member, "POST /v3/maintenance/status").await
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
        Some(self.cluster.get(self.current.lend().service.index, path).await?.1)
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
            Ok(service) => self.current.replace(loan, Member::new(service, index)),
            Err(error) => tracing::debug!(%error, "no new channel to etcd"),
        }
    }
}

/// In the form in which etcdctl shows the ids.
fn two_clusters(first: u64, other: u64) -> LockError {
    LockError::new(
        ErrorCode::InvalidArgument,
        format!(
            "the URL names members of two clusters, {first:x} and {other:x}, which have different locks"
        ),
    )
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
