//! A connection to a simulated server.

use std::pin::Pin;
use std::sync::Arc;

use fred::error::Error as DriverError;
use fred::types::Value;
use fred::types::client::Invalidation;
use tokio::sync::broadcast::Receiver;

use crate::config::WaitReplicas;
use crate::driver::{Command, Transmission, confirmed, wait_words};

/// The answer to a command, when it comes.
pub type Answering = Pin<Box<dyn Future<Output = Result<Value, DriverError>> + Send>>;

/// A connection that is being opened; `None` if it cannot be opened.
pub type Opening<T> = Pin<Box<dyn Future<Output = Option<T>> + Send>>;

/// A connection to a simulated server.
pub trait Wire: Send + Sync {
    /// Sends a command. The backend limits the wait for the answer.
    fn send(&self, command: &'static str, words: Vec<Value>) -> Answering;

    /// How often nodes of the cluster have come or gone: each time, commands may have been sent twice.
    fn changes(&self) -> u64;

    /// Returns whether commands can be sent, as far as the process knows.
    fn is_up(&self) -> bool;

    /// Opens another connection in the place of this one; `None` if it cannot be opened.
    fn reconnect(&self) -> Opening<Arc<dyn Wire>>;

    /// Opens another connection, and returns it with the changes of what it reads; `None` if it cannot be opened.
    fn listen(&self) -> Opening<Listening>;
}

/// A connection for signals.
pub type Listening = (Arc<dyn Wire>, Receiver<Invalidation>);

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
