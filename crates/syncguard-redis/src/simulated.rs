//! For tests: a backend whose commands go to a simulated server instead of fred.

use std::pin::Pin;
use std::sync::Arc;

use fred::clients::Client;
use fred::error::Error as DriverError;
use fred::types::Value;
use fred::types::client::Invalidation;
use fred::types::config::Config;
use syncguard_core::LockError;
use tokio::sync::broadcast::Receiver;

use crate::backend::RedisBackend;
use crate::config::{RedisOptions, WaitReplicas};
use crate::driver::{Command, Transmission, confirmed, wait_words};

/// The answer to a command, when it comes.
pub type Answering = Pin<Box<dyn Future<Output = Result<Value, DriverError>> + Send>>;

/// A connection to a simulated server.
pub trait Wire: Send + Sync {
    /// Sends a command. The backend limits the wait for the answer.
    fn send(&self, command: &'static str, words: Vec<Value>) -> Answering;

    /// How often nodes of the cluster have come or gone: each time, commands may have been sent twice.
    fn changes(&self) -> u64;

    /// Replaces the connection, because nothing was answered in time.
    fn replace(&self);

    /// Opens another connection, and returns it with the changes of what it reads; `None` if it cannot be opened.
    fn listen(&self) -> Pin<Box<dyn Future<Output = Option<Listening>> + Send>>;
}

/// A connection for signals.
pub type Listening = (Arc<dyn Wire>, Receiver<Invalidation>);

/// A backend over a wire. `config` says whether the server is a cluster.
///
/// # Errors
///
/// As [`RedisBackend::from_client`].
pub fn over(
    config: Config,
    wire: &Arc<dyn Wire>,
    options: RedisOptions,
) -> Result<RedisBackend, LockError> {
    // Never connected. Without a reconnect policy, nothing asks it for slots.
    let client = Client::new(config, None, None, None);
    RedisBackend::over(&[client], options, |connections| connections.simulate(wire))
}

/// As [`driver::transmit`](crate::driver::transmit).
pub(crate) fn transmit(
    wire: &dyn Wire,
    (command, words): Command,
    wait: Option<WaitReplicas>,
) -> Transmission<'static> {
    let answer = wire.send(command, words);
    let replicas = wait.map(|wait| (wire.send("WAIT", wait_words(wait)), wait));
    Box::pin(async move {
        let value = answer.await?;
        Ok(match replicas {
            Some((count, wait)) => (value, confirmed(count.await, wait)),
            None => (value, Ok(())),
        })
    })
}
