//! A client of fred with its connection, or its connections to the nodes of a cluster.

#[cfg(feature = "test-util")]
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fred::clients::{Client, WithOptions};
use fred::error::{Error as DriverError, ErrorKind};
use fred::interfaces::{ClientLike as _, EventInterface as _};
use fred::types::config::{Options, Server};
use fred::types::{ConnectHandle, Value};
use syncguard_core::LockError;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::TryRecvError;
use tokio::time::Instant;

use crate::cluster::Cluster;
use crate::config::WaitReplicas;
use crate::driver::{Answering, Command, Target, Transmission, command_to, custom, transmit};
use crate::error::{self, Stage};
#[cfg(feature = "test-util")]
use crate::simulated::wire::{self, Wire};

/// A client in use. Calls in flight hold it, so a client that is replaced ends with its last call.
pub(crate) struct Live {
    pub(crate) client: WithOptions<Client>,
    /// Answers of the connection, counted for each section.
    answers: Box<[AtomicU64]>,
    /// Set on a cluster.
    pub(crate) cluster: Option<Cluster>,
    /// The server of the URL to which this library connected; `None` for a client of the program.
    pub(crate) server: Option<Server>,
    /// The tasks of a client that this library opened. They end with this value.
    tasks: Vec<ConnectHandle>,
    /// Set for a client of the program.
    refusals: Option<Mutex<Refusals>>,
    opened: Instant,
    /// When the last call began, in ms after `opened`.
    used: AtomicU64,
    /// A simulated connection in the place of fred's.
    #[cfg(feature = "test-util")]
    wire: Option<Arc<dyn Wire>>,
}

/// What fred says about its own reconnections.
struct Refusals {
    events: Receiver<(DriverError, Option<Server>)>,
    last: Option<DriverError>,
}

impl Live {
    /// After this time without a call, a lost connection may not have been noticed yet: the process may have stood still.
    const IDLE: u64 = 1_000;

    /// `follows` is set if fred follows redirections of a cluster.
    pub(crate) fn options(command_timeout: Duration, follows: bool) -> Options {
        Options {
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
        }
    }

    pub(crate) fn new(
        client: &Client,
        options: &Options,
        sections: usize,
        server: Option<Server>,
    ) -> Self {
        Self {
            client: client.with_options(options),
            answers: (0..sections).map(|_| AtomicU64::new(0)).collect(),
            cluster: client.is_clustered().then(|| Cluster::of(client)),
            server,
            tasks: Vec::new(),
            refusals: None,
            opened: Instant::now(),
            used: AtomicU64::new(0),
            #[cfg(feature = "test-util")]
            wire: None,
        }
    }

    /// Sends over this wire, to the only node.
    #[cfg(feature = "test-util")]
    pub(crate) fn through(mut self, wire: Arc<dyn Wire>) -> Self {
        self.wire = Some(wire);
        self.cluster = None;
        self
    }

    /// A client of the program, which is connected already or will be.
    pub(crate) fn of_program(client: &Client, options: &Options, sections: usize) -> Self {
        let refusals = Refusals { events: client.error_rx(), last: None };
        let mut live = Self::new(client, options, sections, None);
        live.refusals = Some(Mutex::new(refusals));
        live
    }

    /// Keeps a task of a client that this library opened.
    pub(crate) fn own(&mut self, task: ConnectHandle) {
        self.tasks.push(task);
    }

    /// Returns whether the client can send, as far as fred knows.
    pub(crate) fn is_up(&self) -> bool {
        #[cfg(feature = "test-util")]
        if let Some(wire) = &self.wire {
            return wire.is_up();
        }
        // A client without a reconnect policy ends with its connection, and every client with its runtime.
        self.client.is_connected() && !self.tasks.iter().any(ConnectHandle::is_finished)
    }

    /// Notes a call. Returns true if it is the first one for a while.
    pub(crate) fn was_idle(&self) -> bool {
        let now = u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
        now.saturating_sub(self.used.swap(now, Ordering::Relaxed)) >= Self::IDLE
    }

    /// The number of answers from a section.
    pub(crate) fn answers(&self, target: Target) -> u64 {
        self.answers.get(target.section).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    pub(crate) fn count_answer(&self, target: Target) {
        if let Some(count) = self.answers.get(target.section) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns whether any answer has come.
    pub(crate) fn has_answered(&self) -> bool {
        self.answers.iter().any(|count| count.load(Ordering::Relaxed) > 0)
    }

    /// The error of a call. If there was no connection over a client of the program, it says why.
    pub(crate) fn explain(&self, error: &DriverError, stage: Stage) -> LockError {
        let refusal =
            || self.refusals.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner).last();
        match (error.kind(), refusal()) {
            (ErrorKind::Canceled, Some(refusal)) => error::from_driver(&refusal, Stage::Connecting),
            _ => error::from_driver(error, stage),
        }
    }

    /// Sends a command.
    pub(crate) fn custom(
        &self,
        target: Target,
        command: &'static str,
        words: Vec<Value>,
    ) -> Answering<'_> {
        #[cfg(feature = "test-util")]
        if let Some(wire) = &self.wire {
            return wire.send(command, words);
        }
        custom(&self.client, command_to(command, target), words)
    }

    /// Sends a script.
    pub(crate) fn transmit(
        &self,
        target: Target,
        command: Command,
        wait: Option<WaitReplicas>,
    ) -> Transmission<'_> {
        #[cfg(feature = "test-util")]
        if let Some(wire) = &self.wire {
            return wire::transmit(&**wire, command, wait);
        }
        transmit(&self.client, target, command, wait)
    }

    /// How often nodes of the cluster have come or gone.
    pub(crate) fn changes(&self) -> u64 {
        #[cfg(feature = "test-util")]
        if let Some(wire) = &self.wire {
            return wire.changes();
        }
        self.cluster.as_ref().map_or(0, |cluster| cluster.changes(&self.client))
    }
}

impl Refusals {
    /// Why the last reconnection failed, if no connection was lost since then.
    fn last(&mut self) -> Option<DriverError> {
        loop {
            match self.events.try_recv() {
                // An error of a server is the loss of its connection; an error of no server is a failed reconnection.
                Ok((error, server)) => self.last = server.is_none().then_some(error),
                Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => return self.last.clone(),
            }
        }
    }
}

impl Drop for Live {
    /// fred's task never ends by itself, because it holds the client that it serves.
    fn drop(&mut self) {
        self.tasks.iter().for_each(ConnectHandle::abort);
    }
}
