//! Commands in fred's form.

#![allow(unreachable_pub, reason = "the simulation has commands too")]

use std::time::Duration;

use fred::clients::Client;
use fred::error::{Error as DriverError, ErrorKind};
use fred::interfaces::ClientLike as _;
use fred::types::config::Options;
use fred::types::scripts::Script;
use fred::types::{ClusterHash, CustomCommand, Value};
use futures_util::future::BoxFuture;
use syncguard_core::{ErrorCode, LockError, Timestamp};
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout_at};

use crate::config::WaitReplicas;
use crate::error::{self, Stage};

/// The target of a call.
#[derive(Clone, Copy, Debug, Default)]
pub struct Target {
    /// The index of the section in the layout.
    pub section: usize,
    /// The slot of the section, on a cluster.
    pub slot: Option<u16>,
}

/// A script with its keys and arguments.
pub(crate) struct Call {
    script: &'static Script,
    /// The words of the command: the place of the script, the number of keys, the keys, the arguments.
    words: Vec<Value>,
}

/// The answer to a command, and the answer to the next one in the same pipeline.
pub type Answer = (Value, Option<Result<Value, DriverError>>);

/// A command that is being sent.
pub type Answering<'a> = BoxFuture<'a, Result<Answer, DriverError>>;

/// A script's answer, and whether enough replicas have its writes.
pub(crate) type Replicated = (Value, Result<(), LockError>);

/// A command and its arguments.
pub type Command = (&'static str, Vec<Value>);

impl Call {
    pub(crate) fn new(script: &'static Script) -> Self {
        // With room for the words of most calls.
        let mut words = Vec::with_capacity(10);
        words.extend([Value::Null, number(0)]);
        Self { script, words }
    }

    /// Adds keys, which come before the arguments.
    pub(crate) fn keys(mut self, names: impl IntoIterator<Item = impl Into<Value>>) -> Self {
        self.words.extend(names.into_iter().map(Into::into));
        self.words[1] = i64::try_from(self.words.len() - 2).unwrap_or(i64::MAX).into();
        self
    }

    pub(crate) fn arguments(mut self, arguments: impl IntoIterator<Item = Value>) -> Self {
        self.words.extend(arguments);
        self
    }

    /// fred has methods for these commands, but they ignore the options of a connection (`WithOptions` has no
    /// `LuaInterface` and dereferences to the bare client): fred would send a script up to three times and wait for
    /// ever.
    pub(crate) fn by_hash(self) -> Command {
        let hash = self.script.sha1().clone().into();
        ("EVALSHA", self.words_after(hash))
    }

    pub(crate) fn in_full(self) -> Command {
        let text = self.script.lua().cloned().map_or_else(|| "".into(), Value::from);
        ("EVAL", self.words_after(text))
    }

    fn words_after(mut self, script: Value) -> Vec<Value> {
        self.words[0] = script;
        self.words
    }
}

/// A number as an argument. Only numbers far beyond all times and fences do not fit.
pub(crate) fn number(number: u64) -> Value {
    i64::try_from(number).unwrap_or(i64::MAX).into()
}

/// A time as an argument, in ms.
pub(crate) fn millis(time: Timestamp) -> Value {
    number(time.as_millis())
}

/// The command that waits for replicas.
pub(crate) fn waiting(wait: WaitReplicas) -> Command {
    let millis = i64::try_from(wait.timeout.as_millis()).unwrap_or(i64::MAX);
    ("WAIT", vec![i64::from(wait.count).into(), millis.into()])
}

pub(crate) async fn within(
    bound: Option<Instant>,
    answer: Answering<'_>,
) -> Result<Answer, DriverError> {
    match bound {
        None => answer.await,
        Some(deadline) => timeout_at(deadline, answer).await.unwrap_or_else(timed_out),
    }
}

/// A command for the node that has the target's slot.
pub(crate) fn command_to(command: &'static str, target: Target) -> CustomCommand {
    let node = target.slot.map_or(ClusterHash::Random, ClusterHash::Custom);
    CustomCommand::new_static(command, node, false)
}

/// Sends a command that changes nothing over a client that was just connected, on a cluster to the node that has the
/// slot.
pub(crate) async fn once(
    client: &Client,
    command: &'static str,
    words: Vec<Value>,
    slot: Option<u16>,
    timeout: Duration,
) -> Result<Value, DriverError> {
    let options = Options {
        max_attempts: Some(1),
        timeout: Some(timeout),
        // A node of a cluster has a connection before the client of the cluster says that it is connected.
        fail_fast: slot.is_none(),
        ..Options::default()
    };
    let command = command_to(command, Target { section: 0, slot });
    // Boxed, because fred's future has 5 KB.
    Box::pin(client.with_options(&options).custom(command, words)).await
}

/// The error of a connection that gave no answer.
pub(crate) fn lost(answer: &Result<Value, DriverError>) -> Option<LockError> {
    let error = answer.as_ref().err()?;
    // fred calls a client that has lost its only connection one that has stopped.
    if error::was_not_sent(error) {
        return Some(error::not_connected());
    }
    let is_lost = error::was_lost(error) || *error.kind() == ErrorKind::Timeout;
    is_lost.then(|| error::from_driver(error, Stage::Connecting))
}

pub(crate) fn timed_out<T>(_: Elapsed) -> Result<T, DriverError> {
    Err(DriverError::new(ErrorKind::Timeout, "no answer in time"))
}

pub(crate) fn no_answer() -> DriverError {
    DriverError::new(ErrorKind::Protocol, "no answer")
}

/// Says whether enough replicas have confirmed.
pub(crate) fn confirmed(
    replicas: Option<Result<Value, DriverError>>,
    wait: Option<WaitReplicas>,
) -> Result<(), LockError> {
    let Some(wait) = wait else { return Ok(()) };
    match replicas {
        Some(Ok(Value::Integer(count))) if count >= i64::from(wait.count) => Ok(()),
        Some(Ok(Value::Integer(count))) => Err(LockError::new(
            ErrorCode::ServiceUnavailable,
            format!(
                "{count} of {} replicas confirmed the lock within {:?}",
                wait.count, wait.timeout
            ),
        )),
        Some(Err(error)) => Err(error::from_driver(&error, Stage::Calling)),
        Some(Ok(_)) | None => Err(error::from_driver(&no_answer(), Stage::Calling)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;

    static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::from_lua("return 1"));

    fn sent(keys: &[&str], arguments: Vec<Value>) -> Vec<String> {
        let call = Call::new(&SCRIPT).keys(keys.iter().copied()).arguments(arguments);
        let (command, words) = call.in_full();
        assert_eq!(command, "EVAL");
        words.iter().map(|word| word.as_string().unwrap()).collect()
    }

    #[test]
    fn a_script_gets_the_number_of_its_keys_then_its_keys_then_its_arguments() {
        let keys = ["lock", "é"];
        let arguments = vec!["".into(), number(0), number(1 << 53), "end".into()];
        let expected = ["return 1", "2", "lock", "é", "", "0", "9007199254740992", "end"];
        assert_eq!(sent(&keys, arguments), expected);
    }

    #[test]
    fn a_script_without_keys_or_arguments_is_told_so() {
        assert_eq!(sent(&[], Vec::new()), ["return 1", "0"]);
    }
}
