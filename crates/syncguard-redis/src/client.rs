//! Calls to the server over any connection. Each call is bounded, and sent again only if that is safe.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fred::error::{Error as DriverError, ErrorKind};
use fred::types::Value;
use syncguard_core::LockError;
use syncguard_core::authoring::{FailureSubject, OutageLog};
use tokio::time::{Instant, timeout_at};

use crate::config::WaitReplicas;
use crate::driver::{Call, Replicated, Target, confirmed, timed_out, waiting, within};
use crate::error::{self, Stage};
use crate::link::{Link, Opener};
use crate::live::Live;
use crate::service::{Service, Traits};

/// The connections of a backend.
pub(crate) struct Connections {
    links: Arc<[Arc<Link>]>,
    next: AtomicUsize,
    command_timeout: Duration,
    is_clustered: bool,
    /// True if a connection does not limit each command by itself.
    needs_timer: bool,
    /// True if the driver may send a script to two nodes of a cluster.
    may_send_twice: bool,
}

/// How long to wait for an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    /// The whole operation timeout, which begins now. The driver enforces it.
    Usual(Instant),
    /// The rest of the operation timeout.
    Exact(Instant),
}

/// What happens to a script whose connection is lost before the answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnLoss {
    /// The call fails with an unknown outcome.
    Fail,
    /// The script goes again over another connection, because twice is as good as once.
    Again,
}

/// The outcome of sending a script.
pub(crate) struct Sent {
    pub(crate) result: Result<Replicated, LockError>,
    /// When the script was last sent.
    pub(crate) at: Instant,
    /// True if the script was sent twice, or fred may have done so. An earlier sending may have run, or may still run
    /// after this answer.
    pub(crate) was_sent_twice: bool,
}

impl Connections {
    /// Uses open connections. `sections` is the number of sections of the layout. With `opener`, lost connections are
    /// replaced.
    pub(crate) fn new(
        services: Vec<Box<dyn Service>>,
        opener: Option<&Opener>,
        sections: usize,
        command_timeout: Duration,
    ) -> Self {
        let any = |is: fn(Traits) -> bool| services.iter().any(|service| is(service.traits()));
        let (is_clustered, may_send_twice) =
            (any(|traits| traits.is_clustered), any(|traits| traits.may_send_twice));
        let needs_timer = any(|traits| !traits.has_timer);
        let outage = OutageLog::default();
        let link =
            |service| Link::new(Live::new(service, sections), opener.cloned(), outage.clone());
        Self {
            links: services.into_iter().map(link).collect(),
            next: AtomicUsize::new(0),
            command_timeout,
            is_clustered,
            needs_timer,
            may_send_twice,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.links.len()
    }

    /// The links, as patterns for further connections.
    pub(crate) fn links(&self) -> &Arc<[Arc<Link>]> {
        &self.links
    }

    /// Returns whether the driver may send a script to two nodes of a cluster.
    pub(crate) fn may_send_twice(&self) -> bool {
        self.may_send_twice
    }

    pub(crate) fn is_clustered(&self) -> bool {
        self.is_clustered
    }

    pub(crate) fn command_timeout(&self) -> Duration {
        self.command_timeout
    }

    /// Runs a script that reads: one EVALSHA, and one EVAL if the server does not know the script.
    pub(crate) async fn read(
        &self,
        target: Target,
        call: impl Fn() -> Result<Call, LockError>,
    ) -> Result<Value, LockError> {
        let bound = Bound::Usual(Instant::now() + self.command_timeout);
        Ok(self.send(target, call, None, bound, OnLoss::Again).await.result?.0)
    }

    /// Sends a command that reads, within the operation timeout.
    pub(crate) async fn command(
        &self,
        target: Target,
        command: &'static str,
        words: &[&str],
    ) -> Result<Value, LockError> {
        let words: Vec<Value> = words.iter().map(|word| Value::from(*word)).collect();
        let until = Instant::now() + self.command_timeout;
        self.answer(target, command, &words, until, Stage::Calling).await
    }

    /// Sends a command that has no arguments and changes nothing.
    pub(crate) async fn ask(
        &self,
        target: Target,
        command: &'static str,
        until: Instant,
    ) -> Result<Value, LockError> {
        self.answer(target, command, &[], until, Stage::Asking).await
    }

    async fn answer(
        &self,
        target: Target,
        command: &'static str,
        words: &[Value],
        until: Instant,
        stage: Stage,
    ) -> Result<Value, LockError> {
        let link = self.pick();
        let mut may_be_gone = link.replaces();
        loop {
            let live = link.live(until).await?;
            let answers = live.answers(target);
            let answer = live.service.send(target, (command, words.to_vec()), None);
            // fred's own limit does not cover the connection that it opens beside a blocked one.
            let answer = timeout_at(until, answer).await.unwrap_or_else(timed_out);
            self.note_answer(link, &live, (target, answers), &answer);
            match answer {
                Err(error) if may_be_gone && is_gone(&error, OnLoss::Again) => may_be_gone = false,
                Err(error) => return Err(live.explain(&error, stage)),
                Ok((value, _)) => return Ok(value),
            }
        }
    }

    /// Sends a script by its hash, and in full if the server does not know it. With `wait`, the outcome also
    /// says whether enough replicas have the script's writes.
    ///
    /// A script that was not sent, because the connection was lost before, goes over another connection.
    pub(crate) async fn send(
        &self,
        target: Target,
        call: impl Fn() -> Result<Call, LockError>,
        wait: Option<WaitReplicas>,
        bound: Bound,
        on_loss: OnLoss,
    ) -> Sent {
        let (until, mut timer) = match bound {
            // fred has a timer already; a second timer would cost a tenth of the client's time.
            Bound::Usual(until) => (until, self.needs_timer.then_some(until)),
            Bound::Exact(until) => (until, Some(until)),
        };
        let link = self.pick();
        let mut at = Instant::now();
        let mut was_lost = false;
        let (mut is_known, mut may_have_moved) = (true, self.is_clustered);
        let mut may_be_gone = link.replaces();
        // The connection of the last sending, if the next one goes over it as well.
        let mut used = None;
        loop {
            let (live, changes, answers) = match used.take() {
                Some(used) => used,
                None => match link.live(until).await {
                    Ok(live) => {
                        let (changes, answers) = (live.service.changes(), live.answers(target));
                        (live, changes, answers)
                    }
                    Err(error) => {
                        let error = if was_lost { error.with_unknown_outcome() } else { error };
                        return Sent { result: Err(error), at, was_sent_twice: was_lost };
                    }
                },
            };
            let words = match call() {
                Ok(call) if is_known => call.by_hash(),
                Ok(call) => call.in_full(),
                Err(error) => return Sent { result: Err(error), at, was_sent_twice: was_lost },
            };
            let sending = live.service.send(target, words, wait.map(waiting));
            let answer = within(timer, sending).await;
            match answer {
                Err(error) if is_known && error::is_unknown_script(&error) => {
                    is_known = false;
                    used = Some((live, changes, answers));
                }
                // The script did not run. If the slot has moved, fred has read the slot map again by now.
                Err(error) if may_have_moved && error::is_redirection(&error) => {
                    may_have_moved = false;
                    used = Some((live, changes, answers));
                }
                answer => {
                    self.note_answer(link, &live, (target, answers), &answer);
                    let gone = answer.as_ref().err().filter(|error| is_gone(error, on_loss));
                    let Some(error) = gone.filter(|_| may_be_gone) else {
                        let result = answer
                            .map(|(value, replicas)| (value, confirmed(replicas, wait)))
                            .map_err(|error| live.explain(&error, Stage::Calling));
                        let moved = self.may_send_twice && live.service.changes() != changes;
                        return Sent { result, at, was_sent_twice: was_lost || moved };
                    };
                    may_be_gone = false;
                    was_lost |= !error::was_not_sent(error);
                }
            }
            (at, timer) = (Instant::now(), Some(until));
        }
    }

    /// Counts an answer, and acts by what a failure says about its connection and its server. After a timeout, a
    /// connection is bad if no other answer came while this call waited: `answers` is the count from before the call.
    ///
    /// fred's own check restarts with each command that it writes, so under load it never finds a dead
    /// connection. TCP needs a quarter of an hour.
    fn note_answer<T>(
        &self,
        link: &Arc<Link>,
        live: &Arc<Live>,
        (target, answers): (Target, u64),
        answer: &Result<T, DriverError>,
    ) {
        let Err(error) = answer else { return live.count_answer(target) };
        let subject = error::subject(error);
        if *error.kind() == ErrorKind::Timeout {
            if live.answers(target) != answers {
                return;
            }
        } else if !error::was_not_sent(error) && !error::was_lost(error) {
            live.count_answer(target);
        }
        match (subject, live.service.cluster()) {
            (FailureSubject::Request, _) => {}
            // A lost connection to a node is fred's affair.
            (FailureSubject::Connection, Some(_)) if *error.kind() != ErrorKind::Timeout => {}
            (_, Some(cluster)) => cluster.sync_slots(),
            // The driver may notice the loss later, and never answers what it gets until then.
            (FailureSubject::Connection, None) if error::was_lost(error) => link.lost(live),
            (FailureSubject::Connection, None) => link.replace(live),
            (FailureSubject::Server, None) => {
                link.look_elsewhere(live);
                for other in self.links.iter().filter(|other| !Arc::ptr_eq(other, link)) {
                    other.look_elsewhere(&other.current());
                }
            }
        }
    }

    /// The next connection in turn. If it is lost, another one that works, while this one is opened again.
    fn pick(&self) -> &Arc<Link> {
        let count = self.links.len();
        if count == 1 {
            return &self.links[0];
        }
        let first = &self.links[self.next.fetch_add(1, Ordering::Relaxed) % count];
        if first.is_up() {
            return first;
        }
        first.restore();
        self.links.iter().find(|link| link.is_up()).unwrap_or(first)
    }
}

/// Returns whether a call may go over another connection after this error.
fn is_gone(error: &DriverError, on_loss: OnLoss) -> bool {
    error::was_not_sent(error) || on_loss == OnLoss::Again && error::was_lost(error)
}
