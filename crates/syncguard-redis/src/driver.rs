//! Commands, as fred takes them.

use std::pin::Pin;

use fred::clients::{Client, Pipeline, WithOptions};
use fred::error::{Error as DriverError, ErrorKind};
use fred::interfaces::ClientLike;
use fred::types::scripts::Script;
use fred::types::{ClusterHash, CustomCommand, Value};
use syncguard_core::{ErrorCode, LockError};
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout_at};

use crate::config::WaitReplicas;
use crate::error::{self, Stage};
use crate::words::Word;

/// Where a call goes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct At {
    /// The section of the layout.
    pub(crate) section: usize,
    /// Its slot, on a cluster.
    pub(crate) slot: Option<u16>,
}

/// A script with what it is given.
pub(crate) struct Call<'a, const K: usize, const A: usize> {
    pub(crate) script: &'static Script,
    pub(crate) keys: [Word<'a>; K],
    pub(crate) arguments: [Word<'a>; A],
}

/// What a script answered, and whether enough replicas have what it wrote.
pub(crate) type Replicated = (Value, Result<(), LockError>);

/// A script on its way.
pub(crate) type Transmission<'a> =
    Pin<Box<dyn Future<Output = Result<Replicated, DriverError>> + Send + 'a>>;

/// A command with what follows it.
pub(crate) type Words = (&'static str, Vec<Value>);

/// fred has methods for these commands, but those pass the options of a connection over
/// (`WithOptions` has no `LuaInterface` and dereferences to the bare client), so a script would be
/// sent up to three times and wait for ever.
impl<const K: usize, const A: usize> Call<'_, K, A> {
    pub(crate) fn by_hash(self) -> Words {
        ("EVALSHA", Word::command(self.script.sha1(), &self.keys, &self.arguments))
    }

    pub(crate) fn in_full(self) -> Words {
        let text = self.script.lua().map_or("", |text| text);
        ("EVAL", Word::command(text, &self.keys, &self.arguments))
    }
}

/// Sends a script; with replicas to wait for, WAIT in the same pipeline.
///
/// WAIT counts the writes of its own connection: on a new one, after a reconnection in between, it
/// would find nothing to wait for.
///
/// Boxed, as [`custom`] is.
pub(crate) fn transmit(
    client: &WithOptions<Client>,
    at: At,
    (command, words): Words,
    wait: Option<WaitReplicas>,
) -> Transmission<'_> {
    let Some(wait) = wait else {
        return Box::pin(
            async move { Ok((client.custom(plain(command, at), words).await?, Ok(()))) },
        );
    };
    Box::pin(async move {
        let pipeline = Pipeline::from(client.clone());
        let _: Value = pipeline.custom(plain(command, at), words).await?;
        let _: Value = pipeline.custom(plain("WAIT", at), wait_words(wait)).await?;
        let mut results = pipeline.try_all::<Value>().await.into_iter();
        let mut next = || results.next().unwrap_or_else(|| Err(no_answer()));
        let value = next()?;
        Ok((value, confirmed(next(), wait)))
    })
}

fn wait_words(wait: WaitReplicas) -> Vec<Value> {
    let millis = i64::try_from(wait.timeout.as_millis()).unwrap_or(i64::MAX);
    vec![i64::from(wait.count).into(), millis.into()]
}

/// Sends a command.
///
/// Boxed, because fred's future takes 5 KB. Every future that it is in would be as large, also where it is
/// hardly ever used, and would be copied from one into the next.
pub(crate) fn custom<'a>(
    client: &'a WithOptions<Client>,
    command: CustomCommand,
    words: Vec<Value>,
) -> Pin<Box<dyn Future<Output = Result<Value, DriverError>> + Send + 'a>> {
    Box::pin(async move { client.custom(command, words).await })
}

pub(crate) async fn within(
    bound: Option<Instant>,
    answer: Transmission<'_>,
) -> Result<Replicated, DriverError> {
    match bound {
        None => answer.await,
        Some(deadline) => timeout_at(deadline, answer).await.unwrap_or_else(late),
    }
}

/// A command for the node that has a slot.
pub(crate) fn plain(command: &'static str, at: At) -> CustomCommand {
    let node = at.slot.map_or(ClusterHash::Random, ClusterHash::Custom);
    CustomCommand::new_static(command, node, false)
}

pub(crate) fn late<T>(_: Elapsed) -> Result<T, DriverError> {
    Err(DriverError::new(ErrorKind::Timeout, "no answer in time"))
}

fn no_answer() -> DriverError {
    DriverError::new(ErrorKind::Protocol, "no answer")
}

fn confirmed(replicas: Result<Value, DriverError>, wait: WaitReplicas) -> Result<(), LockError> {
    match replicas {
        Ok(Value::Integer(count)) if count >= i64::from(wait.count) => Ok(()),
        Ok(Value::Integer(count)) => Err(LockError::new(
            ErrorCode::ServiceUnavailable,
            format!(
                "{count} of {} replicas confirmed the lock within {:?}",
                wait.count, wait.timeout
            ),
        )),
        Ok(_) => Err(error::from_driver(&no_answer(), Stage::Calling)),
        Err(error) => Err(error::from_driver(&error, Stage::Calling)),
    }
}
