//! The table of errors: what an error of fred or of the server means.
//!
//! fred has its own kinds for only a few of the server's answers, and its texts may contain arguments and
//! addresses. So the first word of an answer decides, as Redis defines it. No text of fred or of the server leaves
//! this file.

mod tls;

use std::error::Error;
use std::fmt;

use fred::error::{Error as DriverError, ErrorKind};
use syncguard_core::authoring::FailureSubject;
use syncguard_core::{ErrorCode, LockError};

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

use FailureSubject::{Connection, Request, Server};
use Outcome::{Refused, Unknown};

/// The message for a command that is missing.
macro_rules! lacks {
    ($command:literal) => {
        concat!("the server, or a proxy before it, does not know the command ", $command)
    };
}

/// What an error means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Meaning {
    code: ErrorCode,
    outcome: Outcome,
    subject: FailureSubject,
    message: &'static str,
}

/// A row of a table: the text by which an error is known, and what the error means.
struct Row {
    text: &'static str,
    meaning: Meaning,
}

const fn row(
    text: &'static str,
    code: ErrorCode,
    outcome: Outcome,
    subject: FailureSubject,
    message: &'static str,
) -> Row {
    Row { text, meaning: Meaning { code, outcome, subject, message } }
}

/// Answers of the server, by their first word.
const ANSWERS: &[Row] = &[
    row("NOAUTH", AuthFailed, Refused, Connection, "the server wants a password"),
    row(
        "WRONGPASS",
        AuthFailed,
        Refused,
        Connection,
        "the server refused the user name or the password",
    ),
    row("NOPERM", AuthFailed, Refused, Request, FORBIDDEN),
    row(
        "DENIED",
        AuthFailed,
        Refused,
        Server,
        "the server is in protected mode and refuses other hosts",
    ),
    row(
        "WRONGTYPE",
        Internal,
        Refused,
        Request,
        "a record of this library has another type in the store",
    ),
    row(
        "OOM",
        ServiceUnavailable,
        Refused,
        Request,
        "the server has reached its maxmemory and refuses writes",
    ),
    row(
        "READONLY",
        ServiceUnavailable,
        Refused,
        Server,
        "the server is a replica and refuses writes",
    ),
    row("LOADING", ServiceUnavailable, Refused, Server, "the server is still loading its data"),
    row(
        "BUSY",
        ServiceUnavailable,
        Refused,
        Request,
        "the server is busy with a script that does not end",
    ),
    row("MISCONF", ServiceUnavailable, Refused, Request, CANNOT_PERSIST),
    row(
        "MASTERDOWN",
        ServiceUnavailable,
        Refused,
        Server,
        "the server is a replica that lost its master",
    ),
    row(
        "NOREPLICAS",
        ServiceUnavailable,
        Refused,
        Server,
        "too few replicas for the server to accept writes",
    ),
    // At this answer, fred closes the connection and passes the answer to all commands in flight, also to
    // scripts that ran.
    row("CLUSTERDOWN", ServiceUnavailable, Unknown, Server, CLUSTER_DOWN),
    row("TRYAGAIN", ServiceUnavailable, Refused, Request, "the cluster is moving the slot"),
    row("CROSSSLOT", InvalidArgument, Refused, Request, NEEDS_TAG),
    row("MOVED", InvalidArgument, Refused, Request, NEEDS_CLUSTER),
    row("ASK", InvalidArgument, Refused, Request, NEEDS_CLUSTER),
    row("NOPROTO", InvalidArgument, Refused, Request, "the server does not speak RESP3; use RESP2"),
    // The server became a replica while this command waited.
    row("UNBLOCKED", ServiceUnavailable, Unknown, Server, "the server is a replica by now"),
];

/// Answers of the server that start with `ERR`, by a part of their text.
const GENERAL_ANSWERS: &[Row] = &[
    row(
        "max number of clients",
        RateLimited,
        Refused,
        Server,
        "the server has no connection left to give",
    ),
    // Redis 7.2 and Valkey, and older ones.
    row("ACL failure in script", AuthFailed, Refused, Request, FORBIDDEN),
    row("can't run this command", AuthFailed, Refused, Request, FORBIDDEN),
    row("can't access at least one of the keys", AuthFailed, Refused, Request, FORBIDDEN),
    // One record of the lock has moved to another node, and its other records have not.
    row("non local key", ServiceUnavailable, Refused, Request, "the cluster is moving the slot"),
    row(
        "cluster support disabled",
        InvalidArgument,
        Refused,
        Request,
        "the server is no node of a cluster; use redis://",
    ),
    row(
        "DB index is out of range",
        InvalidArgument,
        Refused,
        Request,
        "the server has no database of this number",
    ),
    row(
        "SELECT is not allowed",
        InvalidArgument,
        Refused,
        Request,
        "a cluster has one database only, number 0",
    ),
    row(
        "without any password configured",
        AuthFailed,
        Refused,
        Request,
        "a password was given, the server has none",
    ),
    // Dragonfly, and Alibaba's proxy.
    row("undeclared key", InvalidArgument, Refused, Request, UNDECLARED),
    row("bad lua script", InvalidArgument, Refused, Request, UNDECLARED),
    row("command called from", InvalidArgument, Refused, Request, LACKS_COMMAND_OF_SCRIPTS),
    row("nknown command", InvalidArgument, Refused, Request, LACKS_COMMAND),
    row("nsupported command", InvalidArgument, Refused, Request, LACKS_COMMAND),
    row("not supported", InvalidArgument, Refused, Request, LACKS_COMMAND),
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
const DRIVER_TEXTS: &[Row] = &[
    // The command was in flight when fred replaced the connection, after a loss or a time without an answer. On a
    // cluster, fred also says this after a second MOVED, which ran nothing; the two cannot be told apart.
    row("Too many failed write attempts", ServiceUnavailable, Unknown, Connection, LOST_OR_MOVED),
    row("Failed to route command", ServiceUnavailable, Refused, Connection, NOT_CONNECTED),
    // fred's router has ended, and nobody takes commands any more.
    row("Client is not initialized", InvalidArgument, Refused, Connection, STOPPED),
    row("Failed to send command to router", InvalidArgument, Refused, Connection, STOPPED),
    row("Invalid or missing cluster state", ServiceUnavailable, Refused, Server, CLUSTER_DOWN),
    row("All keys must belong", InvalidArgument, Refused, Request, NEEDS_TAG),
    row(
        "Missing server for hash slot",
        ServiceUnavailable,
        Refused,
        Server,
        "no node serves the slot",
    ),
    row(
        "Failed to connect to all sentinel nodes",
        ServiceUnavailable,
        Refused,
        Server,
        NO_SENTINEL,
    ),
    row("Missing primary address", ServiceUnavailable, Refused, Server, UNKNOWN_MASTER),
];

/// The other errors, by fred's kind.
const fn by_kind(kind: &ErrorKind) -> Meaning {
    let (code, outcome, subject, message) = match kind {
        ErrorKind::Timeout => {
            (NetworkTimeout, Unknown, Connection, "no answer within the operation timeout")
        }
        ErrorKind::IO => (ServiceUnavailable, Unknown, Connection, LOST),
        // fred's fail-fast check, or its router has ended before it sent the command.
        ErrorKind::Canceled => (ServiceUnavailable, Refused, Connection, NOT_CONNECTED),
        ErrorKind::Auth => (AuthFailed, Refused, Connection, "the server refused the credentials"),
        ErrorKind::Config | ErrorKind::Url => {
            let message = "the client's configuration or its URL is not valid";
            (InvalidArgument, Refused, Request, message)
        }
        ErrorKind::Sentinel => {
            let message = "the Sentinels do not lead to a master that answers";
            (ServiceUnavailable, Refused, Server, message)
        }
        ErrorKind::Routing => {
            (ServiceUnavailable, Refused, Request, "the cluster is moving the slot")
        }
        ErrorKind::Cluster => (ServiceUnavailable, Unknown, Server, "the cluster is changing"),
        ErrorKind::Backpressure => {
            (RateLimited, Refused, Request, "the client's command queue is full")
        }
        ErrorKind::Protocol | ErrorKind::Parse | ErrorKind::NotFound => {
            (Internal, Unknown, Connection, "the server's answer makes no sense")
        }
        // fred's router has ended with commands in flight.
        ErrorKind::Unknown => (ServiceUnavailable, Unknown, Connection, STOPPED_IN_FLIGHT),
        _ => (ServiceUnavailable, Unknown, Connection, "the connection failed"),
    };
    Meaning { code, outcome, subject, message }
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
const SILENT: &str = "the server did not answer in time while a connection was opened";
const NOT_CONNECTED: &str = "there is no connection to the server";
const STOPPED: &str = "the Redis client has stopped: its runtime has ended, or it was closed; connect it again, in a runtime that \
     lives as long as the backend";
const STOPPED_IN_FLIGHT: &str = "the Redis client has stopped before the answer came";
const CLUSTER_DOWN: &str = "the cluster does not serve all of its slots";

/// The error of a call.
pub(crate) fn from_driver(error: &DriverError, stage: Stage) -> LockError {
    let Meaning { code, outcome, mut message, .. } = meaning(error, stage);
    if stage == Stage::Connecting && *error.kind() == ErrorKind::IO && code == ServiceUnavailable {
        message = "no connection to the server could be made";
    }
    if stage == Stage::Connecting && *error.kind() == ErrorKind::Timeout {
        // The driver bounds each connection by the operation timeout, or a second if that is longer.
        message = SILENT;
    }
    let error = LockError::new(code, message).with_source(&Origin::of(error));
    if stage == Stage::Calling && outcome == Unknown { error.with_unknown_outcome() } else { error }
}

/// What the failure of a call says about its connection and its server.
pub(crate) fn subject(error: &DriverError) -> FailureSubject {
    meaning(error, Stage::Calling).subject
}

/// Returns whether the command was certainly not sent, because there is no connection.
pub(crate) fn was_not_sent(error: &DriverError) -> bool {
    let Meaning { outcome, message, .. } = meaning(error, Stage::Calling);
    outcome == Refused && matches!(message, NOT_CONNECTED | STOPPED)
}

/// Returns whether the connection was lost after the command was sent and before its answer came.
pub(crate) fn was_lost(error: &DriverError) -> bool {
    let message = meaning(error, Stage::Calling).message;
    matches!(message, LOST | LOST_OR_MOVED | STOPPED_IN_FLIGHT)
}

/// The error of a call while there is no connection, and a new one is not there yet.
pub(crate) fn still_connecting() -> LockError {
    LockError::new(NetworkTimeout, SILENT)
}

/// The error of a call without a connection, if no reason is known.
pub(crate) fn not_connected() -> LockError {
    LockError::new(ServiceUnavailable, NOT_CONNECTED)
}

/// The error of a connection that ends at this command.
pub(crate) fn ends_at(command: &str) -> LockError {
    LockError::invalid_argument(format!(
        "the server, or a proxy before it, ends the connection at the command {command}, which the driver sends first; \
         name the server itself in the URL"
    ))
}

/// The error of a host name without an address.
pub(crate) fn unknown_host() -> LockError {
    LockError::new(
        ServiceUnavailable,
        "no address is known for the host name in the URL; it may be misspelt, or this machine's name server may \
         not answer",
    )
}

/// The error of a `connect` that took too long.
pub(crate) fn connect_timed_out() -> LockError {
    LockError::new(NetworkTimeout, "the server was not ready for use within the connect timeout")
}

/// Returns whether the server does not know the script.
pub(crate) fn is_unknown_script(error: &DriverError) -> bool {
    error.details().starts_with("NOSCRIPT")
}

/// Returns whether a node refused a read of the connection for signals because another node has the record.
pub(crate) fn is_elsewhere(error: &LockError) -> bool {
    error.message() == NEEDS_CLUSTER
}

/// Returns whether a node refused the command because another node has the slot, or gets it. fred does not follow the
/// redirection, but it has read the slot map again by now.
pub(crate) fn is_redirection(error: &DriverError) -> bool {
    *error.kind() == ErrorKind::Routing && error.details().starts_with("Too many redirections")
}

fn meaning(error: &DriverError, stage: Stage) -> Meaning {
    let details = error.details();
    if let Some(row) = answer(details) {
        return row.meaning;
    }
    if is_general(details) {
        if let Some(message) = missing_command(details) {
            return Meaning { code: InvalidArgument, outcome: Refused, subject: Request, message };
        }
        let known = GENERAL_ANSWERS.iter().find(|row| details.contains(row.text));
        return known.map_or(UNKNOWN_ANSWER, |row| row.meaning);
    }
    if let Some(fault) = tls::fault(error) {
        // Other faults can also happen on a working connection with scripts in flight.
        if stage == Stage::Connecting || fault.is_of_a_handshake() {
            let (code, message) = (fault.code, tls::message(fault));
            return Meaning { code, outcome: Refused, subject: Connection, message };
        }
    }
    let known = DRIVER_TEXTS.iter().find(|row| details.starts_with(row.text));
    known.map_or_else(|| by_kind(error.kind()), |row| row.meaning)
}

const UNKNOWN_ANSWER: Meaning = Meaning {
    code: Internal,
    outcome: Unknown,
    subject: Request,
    message: "the server answered a script with an error",
};

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
fn answer(details: &str) -> Option<&'static Row> {
    let row = |word: &str| ANSWERS.iter().find(|row| row.text == word);
    let mut words = details.split_whitespace();
    let first = words.next()?;
    let wrapped = first == "ERR" && details.contains("@user_script");
    let wrapped = wrapped || first.starts_with("@user_script");
    row(first)
        .or_else(|| wrapped.then(|| words.find_map(|word| row(word.trim_start_matches('-'))))?)
}

/// An answer without a word of its own. Inside a script, Redis 6 leaves out `ERR` as well.
fn is_general(details: &str) -> bool {
    details.starts_with("ERR ") || details.starts_with("@user_script")
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
        let answer = answer(details).map(|row| row.text);
        let answer = answer.or_else(|| is_general(details).then_some("ERR"));
        let detail = answer
            .map(str::to_owned)
            .or_else(|| tls::fault(error).map(ToString::to_string))
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
