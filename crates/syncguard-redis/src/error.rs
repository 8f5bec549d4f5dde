//! The table of errors: what an error of fred or of the server means.
//!
//! fred has its own kinds for only a few of the server's answers, and its texts may contain arguments and
//! addresses. So the first word of an answer decides, as Redis defines it. No text of fred or of the server leaves
//! this file.

mod tls;

use std::error::Error;
use std::fmt;

use fred::error::{Error as DriverError, ErrorKind};
use syncguard_core::{ErrorCode, LockError};

use self::tls::TlsFault;
pub(crate) use self::tls::wrong_protocol;

use ErrorCode::{
    AuthFailed, Internal, InvalidArgument, NetworkTimeout, RateLimited, ServiceUnavailable,
};

/// The stage of a call at which it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// No request can have been carried out.
    Connecting,
    /// The command changes nothing.
    Asking,
    /// A script may have run.
    Calling,
}

/// The effect of a failed call on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The call did not run.
    Refused,
    /// The call may have run.
    Unknown,
}

use Outcome::{Refused, Unknown};

/// The message for a command that is missing.
macro_rules! lacks {
    ($command:literal) => {
        concat!("the server, or a proxy before it, does not know the command ", $command)
    };
}

/// Answers of the server, by their first word.
const ANSWERS: &[(&str, ErrorCode, Outcome, &str)] = &[
    ("NOAUTH", AuthFailed, Refused, "the server wants a password"),
    ("WRONGPASS", AuthFailed, Refused, "the server refused the user name or the password"),
    ("NOPERM", AuthFailed, Refused, FORBIDDEN),
    ("DENIED", AuthFailed, Refused, "the server is in protected mode and refuses other hosts"),
    ("WRONGTYPE", Internal, Refused, "a record of this library has another type in the store"),
    ("OOM", ServiceUnavailable, Refused, "the server has reached its maxmemory and refuses writes"),
    ("READONLY", ServiceUnavailable, Refused, "the server is a replica and refuses writes"),
    ("LOADING", ServiceUnavailable, Refused, "the server is still loading its data"),
    ("BUSY", ServiceUnavailable, Refused, "the server is busy with a script that does not end"),
    ("MISCONF", ServiceUnavailable, Refused, CANNOT_PERSIST),
    ("MASTERDOWN", ServiceUnavailable, Refused, "the server is a replica that lost its master"),
    ("NOREPLICAS", ServiceUnavailable, Refused, "too few replicas for the server to accept writes"),
    // At this answer, fred closes the connection and passes the answer to all commands in flight, also to
    // scripts that ran.
    ("CLUSTERDOWN", ServiceUnavailable, Unknown, "the cluster does not serve all of its slots"),
    ("TRYAGAIN", ServiceUnavailable, Refused, "the cluster is moving the slot"),
    ("CROSSSLOT", InvalidArgument, Refused, NEEDS_TAG),
    ("MOVED", InvalidArgument, Refused, NEEDS_CLUSTER),
    ("ASK", InvalidArgument, Refused, NEEDS_CLUSTER),
    ("NOPROTO", InvalidArgument, Refused, "the server does not speak RESP3; use RESP2"),
];

/// Answers of the server that start with `ERR`, by a part of their text.
const GENERAL_ANSWERS: &[(&str, ErrorCode, &str)] = &[
    ("max number of clients", RateLimited, "the server has no connection left to give"),
    ("can't run this command", AuthFailed, FORBIDDEN),
    ("can't access at least one of the keys", AuthFailed, FORBIDDEN),
    // One record of the lock has moved to another node, and its other records have not.
    ("non local key", ServiceUnavailable, "the cluster is moving the slot"),
    (
        "cluster support disabled",
        InvalidArgument,
        "the server is no node of a cluster; use redis://",
    ),
    ("DB index is out of range", InvalidArgument, "the server has no database of this number"),
    ("SELECT is not allowed", InvalidArgument, "a cluster has one database only, number 0"),
    ("without any password configured", AuthFailed, "a password was given, the server has none"),
    // Dragonfly, and Alibaba's proxy.
    ("undeclared key", InvalidArgument, UNDECLARED),
    ("bad lua script", InvalidArgument, UNDECLARED),
    ("command called from script", InvalidArgument, LACKS_COMMAND_OF_SCRIPTS),
    ("nknown command", InvalidArgument, LACKS_COMMAND),
    ("nsupported command", InvalidArgument, LACKS_COMMAND),
    ("not supported", InvalidArgument, LACKS_COMMAND),
];

/// The commands that this library and fred send, with the answer if a server or a proxy lacks one.
const COMMANDS: &[(&str, &str)] = &[
    ("EVALSHA", lacks!("EVALSHA; locks need scripts, by EVALSHA and EVAL")),
    ("EVAL", lacks!("EVAL; locks need scripts, by EVALSHA and EVAL")),
    ("WAIT", lacks!("WAIT, which wait_replicas needs")),
    ("TIME", lacks!("TIME; locks live by the clock of the server")),
    ("SCAN", lacks!("SCAN, which a listing of locks needs")),
    ("INFO", lacks!("INFO")),
    ("CONFIG", lacks!("CONFIG")),
    ("CLIENT", lacks!("CLIENT, which signals need")),
    ("CLUSTER", lacks!("CLUSTER; for a single server, use redis://")),
    ("SENTINEL", lacks!("SENTINEL: it is no Sentinel")),
    ("ROLE", lacks!("ROLE, which Sentinel needs")),
    ("HELLO", lacks!("HELLO")),
    ("AUTH", lacks!("AUTH; take the password out of the URL")),
    ("SELECT", lacks!("SELECT; take the number of the database out of the URL")),
    ("PING", lacks!("PING")),
];

/// Errors of fred itself, by the start of their text.
const DRIVER_TEXTS: &[(&str, ErrorCode, Outcome, &str)] = &[
    // The command was in flight when fred replaced the connection, after a loss or a time without an answer. On a
    // cluster, fred also says this after a second MOVED, which ran nothing; the two cannot be told apart.
    ("Too many failed write attempts", ServiceUnavailable, Unknown, LOST_OR_MOVED),
    ("Failed to route command", ServiceUnavailable, Refused, NOT_CONNECTED),
    ("Client is not initialized", ServiceUnavailable, Refused, NOT_CONNECTED),
    ("Failed to send command to router", ServiceUnavailable, Refused, NOT_CONNECTED),
    ("All keys must belong", InvalidArgument, Refused, NEEDS_TAG),
    ("Missing server for hash slot", ServiceUnavailable, Refused, "no node serves the slot"),
    ("Failed to connect to all sentinel nodes", ServiceUnavailable, Refused, NO_SENTINEL),
    ("Missing primary address", ServiceUnavailable, Refused, UNKNOWN_MASTER),
];

/// The other errors, by fred's kind.
fn by_kind(kind: &ErrorKind) -> (ErrorCode, Outcome, &'static str) {
    match kind {
        ErrorKind::Timeout => (NetworkTimeout, Unknown, "no answer within the command timeout"),
        ErrorKind::IO => (ServiceUnavailable, Unknown, LOST),
        // fred's fail-fast check: nothing was sent.
        ErrorKind::Canceled => (ServiceUnavailable, Refused, NOT_CONNECTED),
        ErrorKind::Auth => (AuthFailed, Refused, "the server refused the credentials"),
        ErrorKind::Config | ErrorKind::Url => {
            (InvalidArgument, Refused, "the client's configuration or its URL is not valid")
        }
        ErrorKind::Sentinel => {
            (ServiceUnavailable, Refused, "the Sentinels do not lead to a master that answers")
        }
        ErrorKind::Routing => (ServiceUnavailable, Refused, "the cluster is moving the slot"),
        ErrorKind::Cluster => (ServiceUnavailable, Unknown, "the cluster is changing"),
        ErrorKind::Backpressure => (RateLimited, Refused, "the client's command queue is full"),
        ErrorKind::Protocol | ErrorKind::Parse | ErrorKind::NotFound => {
            (Internal, Unknown, "the server's answer makes no sense")
        }
        // fred's router has ended with commands in flight.
        ErrorKind::Unknown => (ServiceUnavailable, Unknown, "the client has stopped"),
        _ => (ServiceUnavailable, Unknown, "the connection failed"),
    }
}

const FORBIDDEN: &str = "the server's access rules forbid a command or a key that locks need";
const CANNOT_PERSIST: &str = "the server cannot persist and refuses all writes until a save succeeds (see its log and its disk; or stop-writes-on-bgsave-error no)";
const LACKS_COMMAND: &str = lacks!("that locks need");
const LACKS_COMMAND_OF_SCRIPTS: &str = "the server lacks a command that the scripts of locks call: GET, SET, INCR, DECR, DEL, PEXPIRE or TIME";
const UNDECLARED: &str = "the server, or a proxy before it, refuses scripts that use keys which they were not given, and a request with a lock id alone does not know the key; Dragonfly permits it with --default_lua_flags=allow-undeclared-keys";
const NEEDS_TAG: &str = "the records of a lock are in several slots: use redis-cluster:// or a cluster client, or a key prefix \
     with a hash tag";
const NEEDS_CLUSTER: &str =
    "the server is a node of a cluster; use redis-cluster:// or a cluster client";
// fred does not say why it cannot talk to a Sentinel.
const NO_SENTINEL: &str = "no Sentinel answered at the given addresses; where they run, see whether they take sentinelPassword \
     and, with rediss-sentinel, whether their certificates can be trusted";
const UNKNOWN_MASTER: &str = "the Sentinels know no master of the name in sentinelServiceName";
const LOST: &str = "the connection was lost";
const LOST_OR_MOVED: &str = "the connection was lost; on a cluster, the slot may be moving";
const NOT_CONNECTED: &str = "there is no connection to the server";

/// The error of a call.
pub(crate) fn from_driver(error: &DriverError, stage: Stage) -> LockError {
    let (code, outcome, mut message) = classify(error, stage);
    if stage == Stage::Connecting && *error.kind() == ErrorKind::IO && code == ServiceUnavailable {
        message = "no connection to the server could be made";
    }
    if stage == Stage::Connecting && *error.kind() == ErrorKind::Timeout {
        // The driver bounds each connection by the command timeout, or a second if that is longer.
        message = "the server did not answer in time while a connection was opened";
    }
    let error = LockError::new(code, message).with_source(&Origin::of(error));
    if stage == Stage::Calling && outcome == Unknown { error.with_unknown_outcome() } else { error }
}

/// The error of a `connect` that took too long.
pub(crate) fn connect_timed_out() -> LockError {
    LockError::new(NetworkTimeout, "the server was not ready for use within the connect timeout")
}

/// Returns whether the server does not know the script.
pub(crate) fn is_unknown_script(error: &DriverError) -> bool {
    error.details().starts_with("NOSCRIPT")
}

/// Returns whether a node refused the command because another node has the slot, or gets it. fred does not follow the
/// redirection, but it has read the slot map again by now.
pub(crate) fn is_redirection(error: &DriverError) -> bool {
    *error.kind() == ErrorKind::Routing && error.details().starts_with("Too many redirections")
}

fn classify(error: &DriverError, stage: Stage) -> (ErrorCode, Outcome, &'static str) {
    let details = error.details();
    if let Some((_, code, outcome, message)) = answer(details) {
        return (*code, *outcome, message);
    }
    if details.starts_with("ERR ") {
        if let Some(message) = missing_command(details) {
            return (InvalidArgument, Refused, message);
        }
        let known = GENERAL_ANSWERS.iter().find(|(part, ..)| details.contains(part));
        return known.map_or(
            (Internal, Unknown, "the server answered a script with an error"),
            |(_, code, message)| (*code, Refused, message),
        );
    }
    if let Some(fault) = TlsFault::find(error) {
        // Other faults can also happen on a working connection with scripts in flight.
        if stage == Stage::Connecting || fault.is_of_a_handshake() {
            return (fault.code, Refused, fault.message);
        }
    }
    if let Some((_, code, outcome, message)) =
        DRIVER_TEXTS.iter().find(|(text, ..)| details.starts_with(text))
    {
        return (*code, *outcome, message);
    }
    by_kind(error.kind())
}

/// The message for a missing command, if the answer names it: `ERR unknown command 'EVALSHA', with args …`.
fn missing_command(details: &str) -> Option<&'static str> {
    let named = ["ERR unknown command", "ERR Unknown command"];
    let rest = named.into_iter().find_map(|start| details.strip_prefix(start))?;
    let name =
        rest.split(|letter: char| !letter.is_ascii_alphabetic()).find(|word| !word.is_empty())?;
    let command = COMMANDS.iter().find(|(command, _)| command.eq_ignore_ascii_case(name))?;
    Some(command.1)
}

/// The row of an answer. Redis 6 wraps an error inside a script:
/// `ERR Error running script (…): @user_script:1: @user_script: 1: -OOM command not allowed`.
fn answer(details: &str) -> Option<&'static (&'static str, ErrorCode, Outcome, &'static str)> {
    let row = |word: &str| ANSWERS.iter().find(|(name, ..)| *name == word);
    let mut words = details.split_whitespace();
    let first = words.next()?;
    let wrapped = first == "ERR" && details.contains("@user_script");
    let wrapped = wrapped || first.starts_with("@user_script");
    row(first)
        .or_else(|| wrapped.then(|| words.find_map(|word| row(word.trim_start_matches('-'))))?)
}

/// The parts of a driver's error that are safe to show: its kind, and the first word of the server's answer, the
/// name of a TLS fault or the kind of an I/O error.
#[derive(Debug)]
struct Origin {
    kind: &'static str,
    detail: Option<String>,
}

impl Origin {
    fn of(error: &DriverError) -> Self {
        let details = error.details();
        let answer = answer(details).map(|(word, ..)| *word);
        let answer = answer.or_else(|| details.starts_with("ERR ").then_some("ERR"));
        let detail = answer
            .map(str::to_owned)
            .or_else(|| TlsFault::find(error).map(ToString::to_string))
            .or_else(|| io_error_kind(details));
        Self { kind: error.kind().to_str(), detail }
    }
}

/// fred keeps I/O errors as their `Debug` text: `Os { code: 111, kind: ConnectionRefused, … }`.
fn io_error_kind(details: &str) -> Option<String> {
    let (_, rest) = details.split_once("kind: ")?;
    let kind: String = rest.chars().take_while(char::is_ascii_alphanumeric).collect();
    (!kind.is_empty()).then_some(kind)
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.detail {
            Some(detail) => write!(f, "{} ({detail})", self.kind),
            None => f.write_str(self.kind),
        }
    }
}

impl Error for Origin {}

#[cfg(test)]
mod tests;
