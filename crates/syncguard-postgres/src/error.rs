//! Translates failures of PostgreSQL, the driver and the pool.

use std::error::Error as StdError;
use std::io;

use deadpool_postgres::{HookError, PoolError, TimeoutType};
use syncguard_core::authoring::FailureSubject::{self, Connection, Request, Server};
use syncguard_core::authoring::{LOCK_ID_IN_USE, TlsFault, is_unknown_name};
use syncguard_core::{ErrorCode, LockError};
use tokio_postgres::Error;
use tokio_postgres::error::{DbError, ErrorPosition, Severity, SqlState};

use crate::poolers::{self, Class};

/// A failed statement: the error for the caller, what it says about the connection, and what this crate may do.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: LockError,
    pub(crate) subject: FailureSubject,
    pub(crate) remedy: Remedy,
}

/// What this crate may do about a failure before the caller hears of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// Nothing.
    Report,
    /// Nothing: the statement may still be under way on its connection.
    AwaitAnswer,
    /// Send the same statement again: it was rolled back in a conflict with another session.
    /// `overtaken`: the other session was faster; else it was a deadlock.
    Repeat { overtaken: bool },
    /// Send the same statement on another connection: this one is gone, or leads to the wrong server.
    /// `from_pool`: the connection had been idle, and may have been so for long.
    Reconnect { from_pool: bool },
    /// Prepare the statement again: the server does not know it any more.
    Prepare,
    /// Send the statement without the column for holders: the lock table lacks it.
    OmitHolder,
}

/// The time of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Before the statement was sent.
    Before,
    /// After the statement was sent; a statement that writes may have been carried out.
    After { writes: bool },
}

impl Failure {
    /// The connection was not used.
    pub(crate) fn unsent(error: LockError) -> Self {
        Self { error, subject: Request, remedy: Remedy::Report }
    }

    /// The answer did not come in time.
    pub(crate) fn unanswered(phase: Phase) -> Self {
        let (subject, remedy) = (Connection, Remedy::AwaitAnswer);
        Self { error: statement_timed_out(phase), subject, remedy }
    }

    /// The answer belongs to another statement.
    pub(crate) fn misdirected(phase: Phase) -> Self {
        let mut error = LockError::new(ErrorCode::ServiceUnavailable, OTHER_ANSWER);
        if phase == (Phase::After { writes: true }) {
            error = error.with_unknown_outcome();
        }
        Self::of_a_lost_connection(error)
    }

    fn of_a_lost_connection(error: LockError) -> Self {
        let (subject, remedy) = (Connection, Remedy::Reconnect { from_pool: false });
        Self { error, subject, remedy }
    }
}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Self {
        Self { error, subject: Connection, remedy: Remedy::Report }
    }
}

/// Classifies a failure of a statement of this crate, given its text.
pub(crate) fn classify_own(error: &Error, phase: Phase, sql: &str) -> Failure {
    let mut failure = classify(error, phase);
    if error.as_db_error().is_some_and(|db| lacks_holder(db, sql)) {
        failure.remedy = Remedy::OmitHolder;
    }
    failure
}

/// True if the error says that the column for holders is missing.
///
/// The SQLSTATE tells that a column is missing, and the position in the statement tells which. An error of a
/// trigger has no position in the statement.
fn lacks_holder(error: &DbError, sql: &str) -> bool {
    let Some(ErrorPosition::Original(position)) = error.position() else { return false };
    error.code() == &SqlState::UNDEFINED_COLUMN && names_holder(sql, *position)
}

/// True if the name of the column for holders stands at this position of a statement: 1 is the first character,
/// and statements are ASCII.
fn names_holder(sql: &str, position: u32) -> bool {
    let start = usize::try_from(position).ok().and_then(|position| position.checked_sub(1));
    let named = start.and_then(|start| sql.get(start..));
    named.is_some_and(|named| named.strip_prefix("l.").unwrap_or(named).starts_with("holder"))
}

/// Classifies a failure of a statement, or of the opening of a connection for it.
pub(crate) fn classify(error: &Error, phase: Phase) -> Failure {
    let Some(db) = error.as_db_error() else {
        return from_driver(error, phase);
    };
    let sqlstate = db.code().code();
    // An ERROR ends the transaction. FATAL and PANIC end the session, at any moment, also right after the
    // commit.
    let ended = db.parsed_severity() != Some(Severity::Error);
    let refused = ended.then(|| poolers::refused_by_pgbouncer(db)).flatten();
    let is_refusal = refused.is_some();
    let Class { code, subject, message } = if db.routine() == Some("check_enable_rls") {
        // The session has `row_security = off`, and the SQLSTATE is that of a missing permission.
        Class { code: ErrorCode::AuthFailed, subject: Request, message: HIDDEN_ROWS }
    } else if sqlstate == "55P03" && db.where_().is_some() {
        // The server says where it waited only if it waited for a row.
        Class { code: ErrorCode::ServiceUnavailable, subject: Request, message: ROW_HELD }
    } else {
        let pooler = refused.or_else(|| poolers::failed_in_pgpool(db));
        pooler.unwrap_or_else(|| classify_sqlstate(sqlstate))
    };
    let mut failed = LockError::new(code, message).with_source(&ServerSaid::new(db));
    if ended && !is_refusal && phase == (Phase::After { writes: true }) {
        failed = failed.with_unknown_outcome();
    }
    if !is_refusal && RECORD_LOST.contains(&sqlstate) {
        failed = failed.with_record_lost();
    }
    let subject = if ended && subject == Request { Connection } else { subject };
    let remedy = match sqlstate {
        "40001" => Remedy::Repeat { overtaken: true },
        "40P01" => Remedy::Repeat { overtaken: false },
        "26000" | "0A000" => Remedy::Prepare,
        _ if ended || subject == Server => Remedy::Reconnect { from_pool: false },
        _ => Remedy::Report,
    };
    Failure { error: failed, subject, remedy }
}

/// Returns the error of the last attempt, marked if the outcome of an earlier attempt is unknown.
pub(crate) fn in_doubt(error: LockError, lost: Option<&LockError>) -> LockError {
    if lost.is_some_and(LockError::is_outcome_unknown) {
        error.with_unknown_outcome()
    } else {
        error
    }
}

/// Classifies a failure of the pool to give a connection.
pub(crate) fn from_pool(error: &PoolError) -> LockError {
    match error {
        PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => {
            classify(error, Phase::Before).error
        }
        PoolError::Timeout(TimeoutType::Wait) => pool_exhausted(),
        PoolError::Timeout(TimeoutType::Create | TimeoutType::Recycle) => connect_timed_out(),
        PoolError::Closed => {
            LockError::new(ErrorCode::ServiceUnavailable, "the connection pool is closed")
        }
        PoolError::NoRuntimeSpecified => LockError::invalid_argument(
            "the connection pool has timeouts and no runtime; build it with Runtime::Tokio1",
        ),
        PoolError::PostCreateHook(_) => LockError::new(
            ErrorCode::ServiceUnavailable,
            "a post-create hook of the connection pool failed",
        ),
    }
}

/// No connection became free.
pub(crate) fn pool_exhausted() -> LockError {
    LockError::new(
        ErrorCode::RateLimited,
        "no connection of the pool became free within the pool wait timeout",
    )
}

/// Most connections wait for the answers to statements that were given up.
pub(crate) fn pool_unanswered() -> LockError {
    LockError::new(
        ErrorCode::ServiceUnavailable,
        "no connection became free within the pool wait timeout; PostgreSQL has not answered on most of them",
    )
}

pub(crate) fn connect_timed_out() -> LockError {
    LockError::new(ErrorCode::NetworkTimeout, "no connection to PostgreSQL within the time limit")
}

/// The server ended the connection unasked.
pub(crate) fn connection_closed() -> LockError {
    LockError::new(ErrorCode::ServiceUnavailable, "PostgreSQL has closed the connection")
}

/// The name of the lock table means another table than before.
pub(crate) fn table_replaced() -> LockError {
    LockError::new(ErrorCode::ServiceUnavailable, "the lock table was dropped and made again")
}

/// No answer to a statement.
pub(crate) fn statement_timed_out(phase: Phase) -> LockError {
    let error = LockError::new(
        ErrorCode::NetworkTimeout,
        "no answer from PostgreSQL within the statement timeout",
    );
    if phase == (Phase::After { writes: true }) { error.with_unknown_outcome() } else { error }
}

/// The server refused a statement as too late, and again after the backend had read its clock anew.
pub(crate) fn refused_as_too_late() -> LockError {
    LockError::new(
        ErrorCode::ServiceUnavailable,
        "PostgreSQL refused the statement as too late; its clock keeps changing, or sessions wait longer \
         than the statement timeout",
    )
}

/// The server answered with columns that the statement does not have. So it may be the answer to another statement, and
/// nobody knows what became of this one.
pub(crate) fn bad_answer(error: &Error) -> LockError {
    LockError::internal("PostgreSQL gave an answer that makes no sense")
        .with_source(error)
        .with_unknown_outcome()
}

/// See `IS_SEEN` in `statements.rs`.
const HIDDEN_ROWS: &str = "row-level security, or a view in the place of a table, may hide locks from this role; turn row-level \
     security off for both tables, or give the role BYPASSRLS";

const ROW_HELD: &str = "another session held on for too long to the row of the lock";

const NO_LINE: &str = "PostgreSQL refuses this user from here; pg_hba.conf may have no line for it, or one that wants TLS \
                       (sslmode=require) or a client certificate (sslcert and sslkey)";

const NO_TABLE: &str = "what has the name of a table is a view, or another thing that is no table";

/// After these answers there is no record to rely on: the database, the table or a column of it is gone, the name is that of
/// something else, or the table or its index is damaged.
const RECORD_LOST: &[&str] = &["3D000", "3F000", "42703", "42809", "42P01", "XX001", "XX002"];

/// The table: whole SQLSTATEs first, then classes. An SQLSTATE that is not listed is `Internal`. An answer about the
/// request that ends the session (FATAL) is about the connection.
#[rustfmt::skip]
const TABLE: &[(&str, ErrorCode, FailureSubject, &str)] = &[
    ("0A000", ErrorCode::Internal, Request, "PostgreSQL does not support what was asked of it"),
    ("23505", ErrorCode::InvalidArgument, Request, LOCK_ID_IN_USE),
    ("25006", ErrorCode::ServiceUnavailable, Server, "the server or the session is read-only; locks need the primary"),
    ("26000", ErrorCode::InvalidArgument, Request, "the server lost a prepared statement; behind a transaction pooler, turn on unprepared statements"),
    ("3D000", ErrorCode::InvalidArgument, Request, "there is no such database"),
    ("3F000", ErrorCode::InvalidArgument, Request, "there is no such schema"),
    ("40001", ErrorCode::ServiceUnavailable, Request, "PostgreSQL kept giving up on a conflict with other sessions"),
    ("40P01", ErrorCode::ServiceUnavailable, Request, "PostgreSQL kept giving up on a conflict with other sessions"),
    ("42501", ErrorCode::AuthFailed, Request, "the database role lacks a permission"),
    ("42703", ErrorCode::InvalidArgument, Request, "a column is missing; run setup_schema"),
    ("42704", ErrorCode::AuthFailed, Request, HIDDEN_ROWS),
    ("42809", ErrorCode::InvalidArgument, Request, NO_TABLE),
    ("42P01", ErrorCode::InvalidArgument, Request, "a table is missing; run setup_schema, or connect with setup_schema=true in the URL"),
    ("42P05", ErrorCode::InvalidArgument, Request, "the server knows a prepared statement of this name; behind a transaction pooler, turn on unprepared statements"),
    ("42P10", ErrorCode::InvalidArgument, Request, "a primary key is missing; run setup_schema"),
    ("53100", ErrorCode::ServiceUnavailable, Request, "the disk of the server is full"),
    ("53300", ErrorCode::RateLimited, Server, "the server has too many connections"),
    ("55000", ErrorCode::InvalidArgument, Request, NO_TABLE),
    ("55P03", ErrorCode::ServiceUnavailable, Request, "another session held on for too long to a whole table, as ALTER TABLE and VACUUM FULL do, or to the advisory lock hashtext(key)"),
    ("57014", ErrorCode::NetworkTimeout, Request, "PostgreSQL cancelled the statement, as its statement timeout or an operator asked"),
    ("57P03", ErrorCode::ServiceUnavailable, Server, "PostgreSQL is starting, stopping or recovering"),
    ("08", ErrorCode::ServiceUnavailable, Connection, "the connection to PostgreSQL failed"),
    ("22", ErrorCode::InvalidArgument, Request, "PostgreSQL refused a value"),
    ("23", ErrorCode::InvalidArgument, Request, "PostgreSQL refused a value"),
    ("25", ErrorCode::ServiceUnavailable, Connection, "the pool handed out a connection in the middle of a transaction"),
    ("28000", ErrorCode::AuthFailed, Request, NO_LINE),
    ("28", ErrorCode::AuthFailed, Request, "PostgreSQL refused the credentials"),
    ("40", ErrorCode::ServiceUnavailable, Request, "PostgreSQL rolled the statement back"),
    ("42", ErrorCode::Internal, Request, "PostgreSQL did not understand a statement"),
    ("53", ErrorCode::ServiceUnavailable, Request, "PostgreSQL is out of resources"),
    ("54", ErrorCode::Internal, Request, "a statement is beyond PostgreSQL's limits"),
    ("55", ErrorCode::ServiceUnavailable, Request, "PostgreSQL is not ready for this"),
    ("57", ErrorCode::ServiceUnavailable, Connection, "PostgreSQL is stopping or was told to end the session"),
    ("58", ErrorCode::ServiceUnavailable, Request, "PostgreSQL's system failed"),
    ("P0", ErrorCode::Internal, Request, "a trigger or a function in the database raised an error; the server's log has its text"),
];

fn classify_sqlstate(sqlstate: &str) -> Class {
    TABLE.iter().find(|(prefix, ..)| sqlstate.starts_with(prefix)).map_or(
        Class { code: ErrorCode::Internal, subject: Request, message: "PostgreSQL failed" },
        |&(_, code, subject, message)| Class { code, subject, message },
    )
}

/// The part of a server's error that may be shown: its SQLSTATE, and none of its text.
///
/// No class of messages is safe. Classes 22, 23 and 28 quote values and names of users, and a trigger can
/// raise any SQLSTATE with any text, such as the row's key and lock id. The same is true of details, hints and
/// names of objects.
#[derive(Debug, thiserror::Error)]
#[error("SQLSTATE {0}")]
struct ServerSaid(String);

impl ServerSaid {
    fn new(error: &DbError) -> Self {
        let sqlstate = error.code().code();
        // The program at the other end may not be PostgreSQL.
        let is_one =
            sqlstate.len() == 5 && sqlstate.bytes().all(|byte| byte.is_ascii_alphanumeric());
        Self(if is_one { sqlstate } else { "unknown" }.to_owned())
    }
}

/// Classifies a failure that the server did not report. The connection is gone.
fn from_driver(error: &Error, phase: Phase) -> Failure {
    // The pool carries an error of ours as one of a stream.
    let carried = io_cause(error).and_then(io::Error::get_ref);
    if let Some(own) = carried.and_then(|carried| carried.downcast_ref::<LockError>()) {
        return Failure::of_a_lost_connection(own.clone());
    }
    let (code, message) = if let Some(fault) = tls_fault(error).filter(|_| phase == Phase::Before) {
        (fault.code, fault.message)
    } else if let Some(io) = io_cause(error) {
        match io.kind() {
            io::ErrorKind::TimedOut => {
                (ErrorCode::NetworkTimeout, "PostgreSQL did not answer in time")
            }
            // tokio-postgres gives this kind when no host is a primary.
            io::ErrorKind::PermissionDenied => {
                (ErrorCode::ServiceUnavailable, "no host accepts writes")
            }
            _ if is_unknown_name(io) => (ErrorCode::ServiceUnavailable, UNKNOWN_NAME),
            _ => (ErrorCode::ServiceUnavailable, "the connection to PostgreSQL failed"),
        }
    } else if error.is_closed() {
        (ErrorCode::ServiceUnavailable, "the connection to PostgreSQL was closed")
    } else {
        // The driver does not publish its kinds of errors, only these words.
        match error.to_string().as_str() {
            "authentication error" => (ErrorCode::AuthFailed, "the log-in to PostgreSQL failed"),
            "invalid configuration" | "invalid connection string" => {
                (ErrorCode::InvalidArgument, "the connection cannot be set up so")
            }
            "error performing TLS handshake" => (ErrorCode::InvalidArgument, NO_TLS),
            "unexpected message from server" => (ErrorCode::ServiceUnavailable, OTHER_ANSWER),
            _ => (ErrorCode::Internal, "the driver failed"),
        }
    };
    let mut failed = LockError::new(code, message).with_source(error);
    if phase == (Phase::After { writes: true }) {
        failed = failed.with_unknown_outcome();
    }
    Failure::of_a_lost_connection(failed)
}

const NO_TLS: &str = "the server offers no TLS, which sslmode in the URL wants; PostgreSQL has the setting ssl, and \
                      sslmode=disable is plain text";

const UNKNOWN_NAME: &str = "the host name of the database cannot be resolved: there is no such name, or the name server is away";

/// The message for an answer to another statement.
const OTHER_ANSWER: &str = "the answer was to another statement; PgBouncer before 1.21 mixes up its clients \
     when one of them goes while several of its requests are under way";

/// Returns the error of the network, if the network failed.
pub(crate) fn io_cause(error: &Error) -> Option<&io::Error> {
    error.source()?.downcast_ref()
}

/// The fault of TLS, if it is one.
fn tls_fault(error: &Error) -> Option<&'static TlsFault> {
    TlsFault::find(&format!("{:?}", io_cause(error)?.get_ref()?))
}

#[cfg(test)]
mod tests {
    use syncguard_core::ErrorCode;
    use syncguard_core::authoring::FailureSubject;

    use super::{TABLE, classify_sqlstate, names_holder};

    #[test]
    fn whole_states_come_before_their_classes() {
        for (position, (prefix, ..)) in TABLE.iter().enumerate() {
            let first = TABLE.iter().position(|(earlier, ..)| prefix.starts_with(earlier));
            assert_eq!(first, Some(position), "{prefix} is never reached");
        }
    }

    #[test]
    fn the_position_tells_the_missing_column() {
        let sql = "SELECT l.fence, l.holder FROM l; INSERT INTO l (fence, holder)";
        let position = |text| u32::try_from(sql.find(text).unwrap()).unwrap() + 1;
        assert!(names_holder(sql, position("l.holder")) && names_holder(sql, position("holder)")));
        for other in [0, position("l.fence"), position("fence,"), position("holder)") + 100] {
            assert!(!names_holder(sql, other), "{other}");
        }
    }

    #[test]
    fn each_state_has_its_code_and_its_subject() {
        use FailureSubject::{Connection, Request, Server};
        let expected = [
            ("08006", ErrorCode::ServiceUnavailable, Connection),
            ("22021", ErrorCode::InvalidArgument, Request),
            ("23502", ErrorCode::InvalidArgument, Request),
            ("23505", ErrorCode::InvalidArgument, Request),
            ("25006", ErrorCode::ServiceUnavailable, Server),
            ("25P02", ErrorCode::ServiceUnavailable, Connection),
            ("28000", ErrorCode::AuthFailed, Request),
            ("28P01", ErrorCode::AuthFailed, Request),
            ("3D000", ErrorCode::InvalidArgument, Request),
            ("40001", ErrorCode::ServiceUnavailable, Request),
            ("40P01", ErrorCode::ServiceUnavailable, Request),
            ("42501", ErrorCode::AuthFailed, Request),
            ("42704", ErrorCode::AuthFailed, Request),
            ("42809", ErrorCode::InvalidArgument, Request),
            ("42601", ErrorCode::Internal, Request),
            ("42P01", ErrorCode::InvalidArgument, Request),
            ("53000", ErrorCode::ServiceUnavailable, Request),
            ("53100", ErrorCode::ServiceUnavailable, Request),
            ("53300", ErrorCode::RateLimited, Server),
            ("55000", ErrorCode::InvalidArgument, Request),
            ("55P03", ErrorCode::ServiceUnavailable, Request),
            ("57014", ErrorCode::NetworkTimeout, Request),
            ("57P01", ErrorCode::ServiceUnavailable, Connection),
            ("57P03", ErrorCode::ServiceUnavailable, Server),
            ("58030", ErrorCode::ServiceUnavailable, Request),
            ("P0001", ErrorCode::Internal, Request),
            ("XX000", ErrorCode::Internal, Request),
        ];
        for (sqlstate, code, subject) in expected {
            let class = classify_sqlstate(sqlstate);
            assert_eq!((class.code, class.subject), (code, subject), "{sqlstate}");
        }
    }
}
