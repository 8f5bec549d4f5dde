//! Poolers' own messages: they have SQLSTATEs that say little, so the text has to tell.

use syncguard_core::ErrorCode;
use syncguard_core::authoring::FailureSubject::{self, Connection, Server};
use tokio_postgres::error::DbError;

/// The meaning of an SQLSTATE, or of a pooler's words.
#[derive(Clone, Copy)]
pub(crate) struct Class {
    pub(crate) code: ErrorCode,
    pub(crate) subject: FailureSubject,
    pub(crate) message: &'static str,
}

/// The SQLSTATE of PgBouncer's messages.
const PGBOUNCER_STATE: &str = "08P01";

/// Messages of PgBouncer, always FATAL, before any server has the statement: it was not carried out. PgBouncer
/// has one SQLSTATE for all messages, so the beginning of the text has to tell; later versions add more
/// text behind it. Messages about a server that had the statement are not in this table.
#[rustfmt::skip]
const PGBOUNCER: &[(&str, ErrorCode, FailureSubject, &str)] = &[
    ("server login has been failing", ErrorCode::ServiceUnavailable, Server, "PgBouncer cannot log in to PostgreSQL; it tries again when its server_login_retry is over (15 s by default; 1 is better for locks)"),
    ("query_wait_timeout", ErrorCode::RateLimited, Server, "PgBouncer had no server connection free within its query_wait_timeout; its pool is too small, or statements take too long"),
    ("no more connections allowed", ErrorCode::RateLimited, Server, "PgBouncer has too many clients (max_client_conn)"),
    ("no such database", ErrorCode::InvalidArgument, Server, "PgBouncer knows no such database"),
    ("no such user", ErrorCode::AuthFailed, Server, PGBOUNCER_LOG_IN),
    ("password authentication failed", ErrorCode::AuthFailed, Server, PGBOUNCER_LOG_IN),
    ("SASL authentication failed", ErrorCode::AuthFailed, Server, PGBOUNCER_LOG_IN),
    ("login rejected", ErrorCode::AuthFailed, Server, "PgBouncer's access rules (auth_hba_file) refuse this client"),
    ("unsupported startup parameter", ErrorCode::InvalidArgument, Server, "PgBouncer refuses a parameter of the URL, such as options; it has ignore_startup_parameters for them"),
];

const PGBOUNCER_LOG_IN: &str = "PgBouncer refuses the log-in: it does not know this user (auth_file, auth_query), or has another password for it";

/// PgBouncer's refusal of a statement that no server has seen.
pub(crate) fn refused_by_pgbouncer(error: &DbError) -> Option<Class> {
    (error.code().code() == PGBOUNCER_STATE).then(|| classify_pgbouncer(error.message())).flatten()
}

fn classify_pgbouncer(message: &str) -> Option<Class> {
    PGBOUNCER
        .iter()
        .find(|(text, ..)| message.starts_with(text))
        .map(|&(_, code, subject, message)| Class { code, subject, message })
}

/// A failure that pgpool-II reports with `XX000`, its SQLSTATE for nearly everything. A server's own `XX000` is a defect, and
/// names the function that failed; pgpool names the file alone.
pub(crate) fn failed_in_pgpool(error: &DbError) -> Option<Class> {
    let of_pgpool = error.code().code() == "XX000"
        && error.parsed_severity().is_none()
        && error.routine().is_none()
        && error.file().is_some();
    of_pgpool.then(|| classify_pgpool(error.message()))
}

fn classify_pgpool(message: &str) -> Class {
    let is_refusal = message.contains("authentication failed");
    // "backend authentication failed" may be about a server that starts or stops.
    let (code, message) = if is_refusal && !message.starts_with("backend") {
        (ErrorCode::AuthFailed, "pgpool-II refuses the log-in")
    } else {
        (ErrorCode::ServiceUnavailable, "pgpool-II lost its connection to PostgreSQL, or gets none")
    };
    Class { code, subject: Connection, message }
}

#[cfg(test)]
mod tests {
    use syncguard_core::ErrorCode;

    use super::{classify_pgbouncer, classify_pgpool};

    #[test]
    fn pgbouncer_is_known_by_what_it_says() {
        let failing = Some(ErrorCode::ServiceUnavailable);
        for (said, code) in [
            ("server login has been failing, try again later (server_login_retry)", failing),
            ("server login has been failing, cached error: x (server_login_retry)", failing),
            ("query_wait_timeout", Some(ErrorCode::RateLimited)),
            ("no more connections allowed (max_client_conn)", Some(ErrorCode::RateLimited)),
            ("no such database: x", Some(ErrorCode::InvalidArgument)),
            ("no such user: x", Some(ErrorCode::AuthFailed)),
            ("password authentication failed", Some(ErrorCode::AuthFailed)),
            ("SASL authentication failed", Some(ErrorCode::AuthFailed)),
            ("unsupported startup parameter: options", Some(ErrorCode::InvalidArgument)),
            // The statement may have been carried out.
            ("server conn crashed?", None),
            ("query_timeout", None),
            ("client_idle_timeout", None),
            ("terminating connection due to administrator command", None),
        ] {
            assert_eq!(classify_pgbouncer(said).map(|class| class.code), code, "{said}");
        }
    }

    #[test]
    fn pgpools_refusal_of_a_log_in_is_no_outage() {
        for (said, code) in [
            ("password authentication failed for user \"x\"", ErrorCode::AuthFailed),
            ("md5 authentication failed", ErrorCode::AuthFailed),
            ("SCRAM authentication failed", ErrorCode::AuthFailed),
            ("client authentication failed", ErrorCode::AuthFailed),
            ("clear text authentication failed", ErrorCode::AuthFailed),
            ("backend authentication failed", ErrorCode::ServiceUnavailable),
            ("unable to read data from DB node 0", ErrorCode::ServiceUnavailable),
            ("failed to create a backend connection", ErrorCode::ServiceUnavailable),
        ] {
            assert_eq!(classify_pgpool(said).code, code, "{said}");
        }
    }
}
