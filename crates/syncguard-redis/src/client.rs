//! Calls to the server over any of fred's clients. Each call is bounded and sent once.

#[cfg(feature = "test-util")]
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use fred::clients::{Client, WithOptions};
use fred::error::{Error as DriverError, ErrorKind};
use fred::interfaces::ClientLike;
use fred::types::config::{Blocking, Options};
use fred::types::{ConnectHandle, Value};
use syncguard_core::LockError;
use tokio::time::{Instant, timeout_at};

use crate::cluster::Cluster;
use crate::config::WaitReplicas;
use crate::driver::{
    Answering, Call, Command, Replicated, Target, Transmission, command_to, custom, timed_out,
    transmit, within,
};
use crate::error::{self, Stage};
#[cfg(feature = "test-util")]
use crate::simulated::{self, Wire};

/// The connections of a backend.
pub(crate) struct Connections {
    all: Box<[Connection]>,
    next: AtomicUsize,
    command_timeout: Duration,
    /// True if a client may first have to interrupt a blocking command of the program.
    may_interrupt: bool,
    /// True if fred may send a script to two nodes of a cluster.
    may_send_twice: bool,
    /// The tasks of connections that this library opened. They end with this value.
    tasks: Vec<ConnectHandle>,
}

struct Connection {
    client: WithOptions<Client>,
    /// Answers and replacements of the connection, counted for each section.
    answers: Box<[AtomicU64]>,
    /// Set on a cluster.
    cluster: Option<Cluster>,
    /// A simulated server instead of the client's.
    #[cfg(feature = "test-util")]
    wire: Option<Arc<dyn Wire>>,
}

/// How long to wait for an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    /// The whole command timeout, which begins now. fred enforces it.
    Usual(Instant),
    /// The rest of the command timeout.
    Exact(Instant),
}

/// The outcome of sending a script.
pub(crate) struct Sent {
    pub(crate) result: Result<Replicated, LockError>,
    /// When the script was last sent.
    pub(crate) at: Instant,
    /// True if fred may have sent the script twice, so that it may run again after this answer.
    pub(crate) may_run_again: bool,
}

impl Connections {
    /// Uses clients that are already open. `sections` is the number of sections of the layout.
    pub(crate) fn over(
        clients: &[Client],
        clustered: bool,
        sections: usize,
        command_timeout: Duration,
    ) -> Self {
        // fred 10.1 does not follow redirections of a cluster correctly. For an ASK it sends ASKING over the shared
        // connection and takes the next answer for its own; from then on, each answer on that connection goes
        // to the wrong command. With redirections off, fred reads the slot map again and returns an error. A client of
        // the program may have redirections on, and `Options` cannot turn them off.
        let follows = clients.iter().map(|client| client.connection_config().max_redirections);
        let follows = clustered && follows.max().unwrap_or(0) > 0;
        let options = Options {
            // fred must not resend a script after a lost connection: the caller decides that. If fred follows an
            // ASK with one attempt, its router ends for good, so it gets two. fred also uses the second attempt when
            // it closes the connection to a node that leaves the cluster: see `Cluster`.
            max_attempts: Some(if follows { 2 } else { 1 }),
            // fred follows an ASK back to the node that sent it. Its router ends for good if the attempts run out
            // before the redirections do.
            max_redirections: Some(u32::from(follows)),
            timeout: Some(command_timeout),
            // Without a connection, an error at once is better than a command that is sent much later.
            fail_fast: true,
            ..Options::default()
        };
        let connection = |client: &Client| Connection {
            client: client.with_options(&options),
            answers: (0..sections).map(|_| AtomicU64::new(0)).collect(),
            cluster: clustered.then(|| Cluster::of(client)),
            #[cfg(feature = "test-util")]
            wire: None,
        };
        Self {
            all: clients.iter().map(connection).collect(),
            next: AtomicUsize::new(0),
            command_timeout,
            may_interrupt: clients
                .iter()
                .any(|client| client.client_config().blocking == Blocking::Interrupt),
            may_send_twice: follows,
            tasks: Vec::new(),
        }
    }

    /// Sends everything over this wire.
    #[cfg(feature = "test-util")]
    pub(crate) fn simulate(&mut self, wire: &Arc<dyn Wire>) {
        // A wire has no timer of its own, so each call needs one here.
        self.may_interrupt = true;
        for connection in &mut self.all {
            connection.wire = Some(Arc::clone(wire));
        }
    }

    #[cfg(feature = "test-util")]
    pub(crate) fn wire(&self) -> Option<&Arc<dyn Wire>> {
        self.all.first()?.wire.as_ref()
    }

    /// Keeps the task of a connection that this library opened.
    pub(crate) fn own(&mut self, task: ConnectHandle) {
        self.tasks.push(task);
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// The clients, as patterns for further connections.
    pub(crate) fn clients(&self) -> impl Iterator<Item = &Client> {
        self.all.iter().map(|one| &*one.client)
    }

    /// Returns whether this library opened the connections.
    pub(crate) fn are_opened_here(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// Returns whether fred may send a script to two nodes of a cluster.
    pub(crate) fn may_send_twice(&self) -> bool {
        self.may_send_twice
    }

    pub(crate) fn is_clustered(&self) -> bool {
        self.all.iter().any(|connection| connection.cluster.is_some())
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
        Ok(self.send(target, call, None, bound).await.result?.0)
    }

    /// Sends a command that inspects the server.
    pub(crate) async fn inspect(
        &self,
        target: Target,
        command: &'static str,
        arguments: &[&'static str],
    ) -> Result<Value, LockError> {
        let words: Vec<Value> = arguments.iter().map(|word| (*word).into()).collect();
        let connection = self.pick();
        let answers = connection.answers(target);
        let answer = connection.custom(target, command, words);
        // fred's own limit does not cover the connection that it opens beside a blocked one.
        let deadline = Instant::now() + self.command_timeout;
        let answer = timeout_at(deadline, answer).await.unwrap_or_else(timed_out);
        self.note_answer(connection, target, answers, answer)
            .map_err(|error| error::from_driver(&error, Stage::Calling))
    }

    /// Sends a command that reads, within the command timeout.
    pub(crate) async fn command(
        &self,
        target: Target,
        command: &'static str,
        words: &[&str],
    ) -> Result<Value, LockError> {
        let words = words.iter().map(|word| Value::from(*word)).collect();
        let until = Instant::now() + self.command_timeout;
        let answer = self.answer(target, command, words, until).await;
        answer.map_err(|error| error::from_driver(&error, Stage::Calling))
    }

    async fn answer(
        &self,
        target: Target,
        command: &'static str,
        words: Vec<Value>,
        until: Instant,
    ) -> Result<Value, DriverError> {
        let connection = self.pick();
        let answers = connection.answers(target);
        let answer = connection.custom(target, command, words);
        let answer = timeout_at(until, answer).await.unwrap_or_else(timed_out);
        self.note_answer(connection, target, answers, answer)
    }

    /// Sends a command that has no arguments and changes nothing.
    pub(crate) async fn ask(
        &self,
        target: Target,
        command: &'static str,
        until: Instant,
    ) -> Result<Value, LockError> {
        let answer = self.answer(target, command, Vec::new(), until).await;
        answer.map_err(|error| error::from_driver(&error, Stage::Asking))
    }

    /// Sends a script by its hash, and in full if the server does not know it. With `wait`, the outcome also
    /// says whether enough replicas have the script's writes.
    pub(crate) async fn send(
        &self,
        target: Target,
        call: impl Fn() -> Result<Call, LockError>,
        wait: Option<WaitReplicas>,
        bound: Bound,
    ) -> Sent {
        let connection = self.pick();
        let changes = connection.changes();
        let answers = connection.answers(target);
        let mut sent_at = Instant::now();
        let (until, mut timer) = match bound {
            // fred has a timer already; a second timer would cost a tenth of the client's time.
            Bound::Usual(until) => (until, self.may_interrupt.then_some(until)),
            Bound::Exact(until) => (until, Some(until)),
        };
        let (mut is_known, mut may_have_moved) = (true, connection.cluster.is_some());
        let answer = loop {
            let words = match call() {
                Ok(call) if is_known => call.by_hash(),
                Ok(call) => call.in_full(),
                Err(error) => {
                    return Sent { result: Err(error), at: sent_at, may_run_again: false };
                }
            };
            let answer = within(timer, connection.transmit(target, words, wait)).await;
            match &answer {
                Err(error) if is_known && error::is_unknown_script(error) => is_known = false,
                // The script did not run. If the slot has moved, fred has read the slot map again by now.
                Err(error) if may_have_moved && error::is_redirection(error) => {
                    may_have_moved = false;
                }
                _ => break answer,
            }
            (sent_at, timer) = (Instant::now(), Some(until));
        };
        let result = self.note_answer(connection, target, answers, answer);
        let result = result.map_err(|error| error::from_driver(&error, Stage::Calling));
        Sent {
            result,
            at: sent_at,
            may_run_again: self.may_send_twice && connection.changes() != changes,
        }
    }

    /// Counts an answer. After a timeout, replaces the connection if no other answer came while this call waited:
    /// `answers` is the count from before the call.
    fn note_answer<T>(
        &self,
        connection: &Connection,
        target: Target,
        answers: u64,
        answer: Result<T, DriverError>,
    ) -> Result<T, DriverError> {
        if !matches!(&answer, Err(error) if *error.kind() == ErrorKind::Timeout) {
            if let Some(count) = connection.answers.get(target.section) {
                count.fetch_add(1, Ordering::Relaxed);
            }
        } else if let Some(cluster) = &connection.cluster
            && !connection.is_simulated()
        {
            if connection.answers(target) == answers {
                cluster.sync_slots(&connection.client);
            }
        } else {
            self.replace_if_dead(connection, target, answers);
        }
        answer
    }

    /// The next connection in turn; skips lost connections if another connection works.
    fn pick(&self) -> &Connection {
        let count = self.all.len();
        if count == 1 {
            return &self.all[0];
        }
        let first = self.next.fetch_add(1, Ordering::Relaxed) % count;
        let in_turn = self.all[first..].iter().chain(&self.all[..first]);
        let working = in_turn.into_iter().find(|connection| connection.client.is_connected());
        working.unwrap_or(&self.all[first])
    }

    /// Replaces a connection that gave no answer at all while a call timed out. Only for connections that this
    /// library opened.
    ///
    /// fred's own check restarts with each command that it writes, so under load it never finds a dead
    /// connection. TCP needs a quarter of an hour.
    fn replace_if_dead(&self, connection: &Connection, target: Target, answers: u64) {
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        let is_first = || {
            connection.answers.get(target.section).is_some_and(|count| {
                count.compare_exchange(answers, answers + 1, success, failure).is_ok()
            })
        };
        #[cfg(feature = "test-util")]
        if let Some(wire) = &connection.wire {
            if is_first() {
                wire.replace();
            }
            return;
        }
        if self.are_opened_here() && connection.client.is_connected() && is_first() {
            let client = connection.client.clone();
            tokio::spawn(async move { client.force_reconnection().await });
        }
    }
}

impl Connection {
    /// The number of answers from a section.
    fn answers(&self, target: Target) -> u64 {
        self.answers.get(target.section).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    fn is_simulated(&self) -> bool {
        #[cfg(feature = "test-util")]
        return self.wire.is_some();
        #[cfg(not(feature = "test-util"))]
        false
    }

    /// Sends a command.
    fn custom(&self, target: Target, command: &'static str, words: Vec<Value>) -> Answering<'_> {
        #[cfg(feature = "test-util")]
        if let Some(wire) = &self.wire {
            return wire.send(command, words);
        }
        custom(&self.client, command_to(command, target), words)
    }

    /// Sends a script.
    fn transmit(
        &self,
        target: Target,
        command: Command,
        wait: Option<WaitReplicas>,
    ) -> Transmission<'_> {
        #[cfg(feature = "test-util")]
        if let Some(wire) = &self.wire {
            return simulated::transmit(&**wire, command, wait);
        }
        transmit(&self.client, target, command, wait)
    }

    /// How often nodes of the cluster have come or gone.
    fn changes(&self) -> u64 {
        #[cfg(feature = "test-util")]
        if let Some(wire) = &self.wire {
            return wire.changes();
        }
        self.cluster.as_ref().map_or(0, |cluster| cluster.changes(&self.client))
    }
}

impl Drop for Connections {
    /// fred's task never ends by itself, because it holds the client that it serves.
    fn drop(&mut self) {
        self.tasks.iter().for_each(ConnectHandle::abort);
    }
}
