//! A client of fred with its connection, or its connections to the nodes of a cluster.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fred::clients::{Client, Pipeline, WithOptions};
use fred::error::Error as DriverError;
use fred::interfaces::{ClientLike as _, EventInterface as _, TrackingInterface as _};
use fred::types::config::{Blocking, Options, Server};
use fred::types::{ConnectHandle, Value};
use futures_util::future::BoxFuture;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::TryRecvError;
use tokio_util::sync::ReusableBoxFuture;

use crate::cluster::Cluster;
use crate::driver::{Answer, Answering, Command, Target, command_to, no_answer};
use crate::listening;
use crate::service::{Listening, Opening, Service, Traits};

pub(crate) struct FredClient {
    client: WithOptions<Client>,
    /// Set on a cluster.
    cluster: Option<Cluster>,
    /// True if fred follows redirections of a cluster.
    follows: bool,
    /// The server of the URL to which this library connected; `None` for a client that connects by itself.
    server: Option<Server>,
    /// The tasks of a client that this library opened. They end with this value.
    tasks: Vec<ConnectHandle>,
    /// Set for a client that connects by itself.
    refusals: Option<Mutex<Refusals>>,
    /// Boxes of calls that have ended.
    spare: Mutex<Vec<Sending>>,
}

type Sending = ReusableBoxFuture<'static, Result<Answer, DriverError>>;

/// As many calls at a time allocate no boxes, which take 320 KB then.
const MOST_SPARE: usize = 64;

/// The errors that fred reports of its own reconnections.
struct Refusals {
    events: Receiver<(DriverError, Option<Server>)>,
    last: Option<DriverError>,
}

impl FredClient {
    /// A client of the program, which is connected already or will be.
    pub(crate) fn of_program(client: &Client, command_timeout: Duration) -> Self {
        // fred 10.1 does not follow redirections of a cluster correctly. For an ASK it sends ASKING over the shared
        // connection and takes the next answer for its own; from then on, each answer on that connection goes
        // to the wrong command. With redirections off, fred reads the slot map again and returns an error. A client of
        // the program may have redirections on, and `Options` cannot turn them off.
        let follows = client.is_clustered() && client.connection_config().max_redirections > 0;
        let refusals = Refusals { events: client.error_rx(), last: None };
        let mut this = Self::new(client, command_timeout, follows, None);
        this.refusals = Some(Mutex::new(refusals));
        this
    }

    /// A client for this server of a URL, which is not connected yet.
    pub(crate) fn of_url(client: &Client, command_timeout: Duration, server: Server) -> Self {
        Self::new(client, command_timeout, false, Some(server))
    }

    fn new(
        client: &Client,
        command_timeout: Duration,
        follows: bool,
        server: Option<Server>,
    ) -> Self {
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
        Self {
            client: client.with_options(&options),
            cluster: client.is_clustered().then(|| Cluster::of(client)),
            follows,
            server,
            tasks: Vec::new(),
            refusals: None,
            spare: Mutex::default(),
        }
    }

    /// Keeps a task of a client that this library opened.
    pub(crate) fn own(&mut self, task: ConnectHandle) {
        self.tasks.push(task);
    }

    /// Ends with the client, which ends with its connection unless it is that of a cluster.
    pub(crate) async fn ended(&mut self) {
        if let Some(task) = self.tasks.last_mut() {
            // How it ended does not matter.
            let _ = task.await;
        }
    }
}

impl Service for FredClient {
    fn traits(&self) -> Traits {
        Traits {
            is_clustered: self.cluster.is_some(),
            may_send_twice: self.follows,
            // fred's own limit does not cover the interruption of a blocking command of the program.
            has_timer: self.client.client_config().blocking != Blocking::Interrupt,
        }
    }

    fn is_up(&self) -> bool {
        // A client without a reconnect policy ends with its connection, and every client with its runtime.
        self.client.is_connected() && !self.tasks.iter().any(ConnectHandle::is_finished)
    }

    /// WAIT counts the writes of its own connection. Outside of the pipeline, fred could reconnect in between, and WAIT
    /// would have no write to wait for.
    ///
    /// fred's future has 5 KB, so it has a box of its own, which the next call takes.
    fn send(
        &self,
        target: Target,
        (command, words): Command,
        then: Option<Command>,
    ) -> Answering<'_> {
        let Some((next, next_words)) = then else {
            let client = self.client.clone();
            let sending = async move {
                // Not `custom`, whose future is larger by two copies of the words.
                let answer = client.custom_raw(command_to(command, target), words).await?;
                Ok((answer.try_into()?, None))
            };
            // No call waits for another one.
            let spare = self.spare.try_lock().ok().and_then(|mut spare| spare.pop());
            let mut sending = match spare {
                Some(mut spare) => {
                    spare.set(sending);
                    spare
                }
                None => ReusableBoxFuture::new(sending),
            };
            return Box::pin(async move {
                let answer = sending.get_pin().await;
                if let Ok(mut spare) = self.spare.try_lock()
                    && spare.len() < MOST_SPARE
                {
                    spare.push(sending);
                }
                answer
            });
        };
        Box::pin(async move {
            let pipeline = Pipeline::from(self.client.clone());
            let _: Value = pipeline.custom(command_to(command, target), words).await?;
            let _: Value = pipeline.custom(command_to(next, target), next_words).await?;
            let mut results = pipeline.try_all::<Value>().await.into_iter();
            let value = results.next().unwrap_or_else(|| Err(no_answer()))?;
            Ok((value, results.next()))
        })
    }

    fn listen(&self, node: Option<Server>, command_timeout: Duration) -> Opening<'_, Listening> {
        Box::pin(async move {
            let client = listening::client(&self.client, node, command_timeout);
            let changes = client.invalidation_rx();
            let ended = listening::connect(&client).await?;
            let service = Box::new(Self::of_program(&client, command_timeout));
            Ok(Listening { service, changes, ended })
        })
    }

    fn changes(&self) -> u64 {
        self.cluster.as_ref().map_or(0, Cluster::changes)
    }

    fn cluster(&self) -> Option<&Cluster> {
        self.cluster.as_ref()
    }

    fn server(&self) -> Option<&Server> {
        self.server.as_ref()
    }

    fn refusal(&self) -> Option<DriverError> {
        self.refusals.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner).last()
    }

    /// Without a policy, a client that cannot connect ends.
    fn reconnecting(&self) -> Option<BoxFuture<'static, ()>> {
        let client = self.client.clone();
        let policy = client.client_reconnect_policy()?;
        (policy.max_attempts() == 0).then(|| {
            // The next call finds out whether it helped.
            Box::pin(async move { drop(client.force_reconnection().await) }) as _
        })
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

impl Drop for FredClient {
    /// fred's task never ends by itself, because it holds the client that it serves.
    fn drop(&mut self) {
        self.tasks.iter().for_each(ConnectHandle::abort);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_call_takes_the_box_of_an_earlier_one() {
        let client = FredClient::of_program(&Client::default(), Duration::from_secs(1));
        let spare = || client.spare.lock().unwrap().len();
        let send = || client.send(Target::default(), ("PING", Vec::new()), None);
        for _ in 0..3 {
            assert!(send().await.is_err(), "there is no server");
            assert_eq!(spare(), 1);
        }
        let (one, other) = (send(), send());
        assert_eq!(spare(), 0);
        drop(one);
        assert!(other.await.is_err());
        assert_eq!(spare(), 1);
    }
}
