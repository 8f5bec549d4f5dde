//! Each row of the tables, and the secrets that no error shows.

use syncguard_core::authoring::TlsFault;

use super::*;

fn classified(kind: ErrorKind, details: &'static str) -> (ErrorCode, bool, FailureSubject) {
    let driver = DriverError::new(kind, details);
    let error = from_driver(&driver, Stage::Calling);
    (error.code(), error.is_outcome_unknown(), subject(&driver))
}

/// The beginnings of texts that fred and servers of several versions have sent. `tests/tests/redis/errors.rs` asks
/// the real server.
const ROWS: &[(ErrorKind, &str, ErrorCode, bool, FailureSubject)] = {
    use ErrorCode::ServiceUnavailable as Unavailable;
    use ErrorKind as K;
    &[
        (K::Auth, "NOAUTH Authentication required.", AuthFailed, false, Connection),
        (K::Auth, "WRONGPASS invalid username-password pair", AuthFailed, false, Connection),
        (K::Unknown, "NOPERM this user has no permissions to run", AuthFailed, false, Request),
        (K::Unknown, "DENIED Redis is running in protected mode", AuthFailed, false, Server),
        (K::Unknown, FORBIDDEN_IN_SCRIPT, AuthFailed, false, Request),
        (
            K::Unknown,
            "@user_script: 59: The user executing the script can't access at least one of the keys",
            AuthFailed,
            false,
            Request,
        ),
        (
            K::Unknown,
            "@user_script: 59: Unknown Redis command called from Lua script",
            InvalidArgument,
            false,
            Request,
        ),
        (K::Unknown, "ERR ACL failure in script: User u has no", AuthFailed, false, Request),
        (K::InvalidArgument, "WRONGTYPE Operation against a key", Internal, false, Request),
        (K::Unknown, "OOM command not allowed", Unavailable, false, Request),
        (K::Unknown, OOM_IN_SCRIPT, Unavailable, false, Request),
        (K::Unknown, "@user_script: 26: -READONLY You can't write", Unavailable, false, Server),
        (K::Unknown, "LOADING Redis is loading the dataset", Unavailable, false, Server),
        (K::Unknown, "MISCONF Redis is configured to save RDB", Unavailable, false, Request),
        (K::Unknown, "MASTERDOWN Link with MASTER is down", Unavailable, false, Server),
        (K::Unknown, "NOREPLICAS Not enough good replicas", Unavailable, false, Server),
        (K::Unknown, "UNBLOCKED force unblock", Unavailable, true, Server),
        (K::Unknown, "BUSY Redis is busy running a script.", Unavailable, false, Request),
        (K::Unknown, "BUSYKEY Target key name already exists.", Unavailable, true, Connection),
        (K::Cluster, "CLUSTERDOWN Hash slot not served", Unavailable, true, Server),
        (K::Unknown, "CROSSSLOT Keys in request", InvalidArgument, false, Request),
        (K::Cluster, "MOVED 1 10.0.0.1:6379", InvalidArgument, false, Request),
        (
            K::Cluster,
            "All keys must belong to the same cluster node.",
            InvalidArgument,
            false,
            Request,
        ),
        (K::Unknown, "ERR max number of clients reached", RateLimited, false, Server),
        (K::Unknown, "ERR DB index is out of range", InvalidArgument, false, Request),
        (K::Unknown, UNDECLARED, InvalidArgument, false, Request),
        (K::Unknown, UNKNOWN_IN_SCRIPT, InvalidArgument, false, Request),
        (K::Unknown, "ERR something new", Internal, true, Request),
        (K::Timeout, "Request timed out.", NetworkTimeout, true, Connection),
        (K::IO, "Connection closed.", Unavailable, true, Connection),
        (K::Canceled, "Connection closed unexpectedly.", Unavailable, false, Connection),
        (K::Unknown, "Failed to route command.", Unavailable, false, Connection),
        (K::Unknown, "Failed to send command to router.", InvalidArgument, false, Connection),
        (K::Unknown, "Too many failed write attempts.", Unavailable, true, Connection),
        (K::Unknown, "channel closed", Unavailable, true, Connection),
        (K::Protocol, "Invalid or missing cluster state.", Unavailable, false, Server),
        (K::Sentinel, "Failed to connect to all sentinel nodes.", Unavailable, false, Server),
        (K::Backpressure, "Max in-flight commands reached.", RateLimited, false, Request),
        (K::Parse, "Invalid UTF-8 string.", Internal, true, Connection),
    ]
};

const FORBIDDEN_IN_SCRIPT: &str =
    "ERR The user executing the script can't run this command or subcommand";
const OOM_IN_SCRIPT: &str =
    "ERR Error running script (call to f_0): @user_script:1: @user_script: 1: -OOM command";
const UNDECLARED: &str = "ERR Error running script (call to f_0): @user_script:2: script tried \
                          accessing undeclared key";
const UNKNOWN_IN_SCRIPT: &str = "ERR Unknown Redis command called from script script: f_0, on \
                                 @user_script:69.";

#[test]
fn every_row_is_what_it_says() {
    for (kind, details, code, is_unknown, subject) in ROWS {
        let expected = (*code, *is_unknown, *subject);
        assert_eq!(classified(kind.clone(), details), expected, "{details}");
    }
}

#[test]
fn only_what_was_not_sent_or_not_answered_may_go_again() {
    for (kind, details, not_sent, lost) in [
        (ErrorKind::Canceled, "Canceled.", true, false),
        (ErrorKind::Unknown, "Failed to send command to router.", true, false),
        (ErrorKind::IO, "Connection closed.", false, true),
        (ErrorKind::Unknown, "channel closed", false, true),
        (ErrorKind::Timeout, "Request timed out.", false, false),
        (ErrorKind::Unknown, "READONLY You can't write", false, false),
    ] {
        let driver = DriverError::new(kind, details);
        assert_eq!((was_not_sent(&driver), was_lost(&driver)), (not_sent, lost), "{details}");
    }
}

#[test]
fn a_lost_connection_reads_as_one() {
    for (kind, details) in [
        (ErrorKind::IO, "Connection closed."),
        // The command was in flight when fred replaced the connection.
        (ErrorKind::Unknown, "Too many failed write attempts."),
    ] {
        let error = from_driver(&DriverError::new(kind, details), Stage::Calling);
        assert!(error.message().starts_with("the connection was lost"), "{details}: {error}");
        assert!(error.is_outcome_unknown() && error.is_retryable());
    }
}

#[test]
fn nothing_is_unknown_before_the_first_call() {
    let lost = DriverError::new(ErrorKind::IO, "Connection closed.");
    assert!(!from_driver(&lost, Stage::Connecting).is_outcome_unknown());
}

#[test]
fn no_text_of_the_driver_or_the_server_is_passed_on() {
    for details in [
        "NOPERM this user has no permissions to access 'secret-key'",
        "ERR wrong number of secret-key arguments",
        "secret-key",
        "Os { code: 111, kind: ConnectionRefused, message: \"secret-key\" }",
    ] {
        let error = DriverError::new(ErrorKind::IO, details);
        let error = from_driver(&error, Stage::Calling);
        assert!(!format!("{error} {error:?}").contains("secret-key"), "{error:?}");
    }
    let refused = DriverError::new(ErrorKind::IO, "Os { code: 111, kind: ConnectionRefused }");
    let refused = from_driver(&refused, Stage::Connecting);
    assert_eq!(refused.source().unwrap().to_string(), "IO Error (ConnectionRefused)");
}

fn wrapped(fault: &str) -> String {
    format!("Custom {{ kind: InvalidData, error: {fault} }}")
}

#[test]
fn each_fault_is_what_it_says() {
    for (fault, code, says) in [
        ("InvalidCertificate(Expired)", AuthFailed, "expired"),
        ("InvalidCertificate(ExpiredContext { time: 1, not_after: 0 })", AuthFailed, "expired"),
        ("InvalidCertificate(NotValidYetContext { time: 1 })", AuthFailed, "not valid yet"),
        (
            "InvalidCertificate(NotValidForNameContext { expected: DnsName(\"secret-key\") })",
            AuthFailed,
            "other names",
        ),
        ("InvalidCertificate(UnknownIssuer)", AuthFailed, "sslrootcert"),
        ("InvalidCertificate(BadSignature)", AuthFailed, "sslrootcert"),
        ("InvalidCertificate(Revoked)", AuthFailed, "cannot be used"),
        ("NoCertificatesPresented", AuthFailed, "no certificate"),
        ("AlertReceived(CertificateRequired)", AuthFailed, "client certificate"),
        ("AlertReceived(UnknownCA)", AuthFailed, "client certificate"),
        ("AlertReceived(HandshakeFailure)", AuthFailed, "client certificate"),
        ("AlertReceived(UnrecognisedName)", AuthFailed, "other names"),
        ("AlertReceived(ProtocolVersion)", InvalidArgument, "TLS 1.2"),
        ("AlertReceived(InternalError)", ServiceUnavailable, "no connection"),
        ("PeerIncompatible(ServerDoesNotSupportTls12Or13)", InvalidArgument, "TLS 1.2"),
        ("InvalidMessage(InvalidContentType)", InvalidArgument, "speaks no TLS"),
        ("\"tls handshake eof\"", ServiceUnavailable, "no connection"),
    ] {
        let error = DriverError::new(ErrorKind::IO, wrapped(fault));
        let connecting = from_driver(&error, Stage::Connecting);
        assert_eq!(connecting.code(), code, "{fault}");
        assert!(connecting.message().contains(says), "{fault}: {connecting}");
        assert!(!connecting.is_outcome_unknown());
        assert!(!format!("{connecting:?}").contains("secret-key"), "{connecting:?}");
        // A working connection may have had a script in flight.
        let calling = from_driver(&error, Stage::Calling);
        let certain = tls::fault(&error).is_some_and(TlsFault::is_of_a_handshake);
        assert_eq!(calling.is_outcome_unknown(), !certain, "{fault}");
        assert_eq!(calling.code(), if certain { code } else { ServiceUnavailable }, "{fault}");
    }
}

#[test]
fn they_are_found_wherever_fred_puts_them() {
    // On the connection to the master that a Sentinel named.
    let fault = wrapped("InvalidCertificate(UnknownIssuer)");
    let error = from_driver(&DriverError::new(ErrorKind::Sentinel, fault), Stage::Connecting);
    assert_eq!(error.code(), AuthFailed);
    let cause = Error::source(&error).unwrap().to_string();
    assert_eq!(cause, "Sentinel Error (InvalidCertificate: UnknownIssuer)");
    #[cfg(feature = "tls")]
    {
        let error = DriverError::new(ErrorKind::Tls, "InvalidDnsNameError");
        assert_eq!(from_driver(&error, Stage::Calling).code(), InvalidArgument);
    }
}

#[test]
fn a_missing_command_is_named_and_its_arguments_are_not() {
    let message = |details: &'static str| {
        let error = DriverError::new(ErrorKind::Unknown, details);
        let error = from_driver(&error, Stage::Calling);
        assert_eq!(
            (error.code(), error.is_outcome_unknown()),
            (InvalidArgument, false),
            "{details}"
        );
        assert!(!format!("{error} {error:?}").contains("secret-key"), "{error:?}");
        error.message().to_owned()
    };
    for (command, _) in COMMANDS {
        // As Redis 5, Redis 7 and Dragonfly say it.
        for details in [
            format!("ERR unknown command `{command}`, with args beginning with: `secret-key`, "),
            format!("ERR unknown command '{}'", command.to_lowercase()),
            format!("ERR unknown command {command}"),
        ] {
            let named = message(details.leak());
            assert!(named.contains(&format!("command {command}")), "{named}");
        }
    }
    for details in ["ERR unknown command 'secret-key', with args 'EVAL'", "ERR unsupported command"]
    {
        assert!(message(details).ends_with("that locks need"), "{details}");
    }
}
