//! The table of TLS faults, by their names in rustls.
//!
//! fred keeps a fault as text inside the text of an I/O error:
//! `Custom { kind: InvalidData, error: InvalidCertificate(UnknownIssuer) }`.

use std::fmt;

use fred::error::{Error as DriverError, ErrorKind};
use syncguard_core::{ErrorCode, LockError};

use ErrorCode::{AuthFailed, InvalidArgument};

/// One row of the table.
pub(super) struct TlsFault {
    name: &'static str,
    /// The start of the text in the parentheses after the name.
    detail: &'static str,
    pub(super) code: ErrorCode,
    pub(super) message: &'static str,
}

/// The first row that fits counts.
const FAULTS: &[TlsFault] = &[
    row("InvalidCertificate", "Expired", AuthFailed, EXPIRED),
    row("InvalidCertificate", "NotValidYet", AuthFailed, NOT_VALID_YET),
    row("InvalidCertificate", "NotValidForName", AuthFailed, OTHER_NAMES),
    row("InvalidCertificate", "UnknownIssuer", AuthFailed, UNTRUSTED),
    row("InvalidCertificate", "BadSignature", AuthFailed, UNTRUSTED),
    row("InvalidCertificate", "", AuthFailed, "the server's certificate cannot be trusted"),
    row("NoCertificatesPresented", "", AuthFailed, "the server showed no certificate"),
    row("AlertReceived", "CertificateRequired", AuthFailed, WANTS_A_CERTIFICATE),
    row("AlertReceived", "BadCertificate", AuthFailed, WANTS_A_CERTIFICATE),
    row("AlertReceived", "UnsupportedCertificate", AuthFailed, WANTS_A_CERTIFICATE),
    row("AlertReceived", "CertificateUnknown", AuthFailed, WANTS_A_CERTIFICATE),
    row("AlertReceived", "UnknownCA", AuthFailed, WANTS_A_CERTIFICATE),
    row("AlertReceived", "AccessDenied", AuthFailed, WANTS_A_CERTIFICATE),
    // A server with TLS 1.2 sends this if it misses the client's certificate.
    row("AlertReceived", "HandshakeFailure", AuthFailed, NO_HANDSHAKE),
    row("AlertReceived", "UnrecognisedName", AuthFailed, OTHER_NAMES),
    row("AlertReceived", "ProtocolVersion", InvalidArgument, NOTHING_IN_COMMON),
    row("AlertReceived", "InsufficientSecurity", InvalidArgument, NOTHING_IN_COMMON),
    row("PeerIncompatible", "", InvalidArgument, NOTHING_IN_COMMON),
    row("InvalidMessage", "", InvalidArgument, SPEAKS_NO_TLS),
    row("InvalidDnsNameError", "", InvalidArgument, NO_NAME),
];

const fn row(
    name: &'static str,
    detail: &'static str,
    code: ErrorCode,
    message: &'static str,
) -> TlsFault {
    TlsFault { name, detail, code, message }
}

const EXPIRED: &str = "the server's certificate has expired, or this machine's clock is wrong";
const NOT_VALID_YET: &str =
    "the server's certificate is not valid yet, or this machine's clock is wrong";
const OTHER_NAMES: &str = "the server's certificate is for other names than the host of the URL";
const UNTRUSTED: &str = "the server's certificate is not signed by an authority that is trusted here; \
                         sslrootcert in the URL names a file of those to trust";
const WANTS_A_CERTIFICATE: &str = "the server wants a client certificate that it knows; pass a client with one to from_client, or set \
     tls-auth-clients no on the server";
const NO_HANDSHAKE: &str = "the server refused the TLS handshake; if it wants a client certificate, pass a client with one to \
     from_client, or set tls-auth-clients no on the server";
const NOTHING_IN_COMMON: &str =
    "the server and this client share no TLS version or no cipher; TLS 1.2 and 1.3 are supported";
const NO_NAME: &str = "the host of the URL is none that a certificate can be for";
const SPEAKS_NO_TLS: &str = "the server speaks no TLS on this port; use its TLS port, or redis in the place of rediss if plain \
     text is enough";
const SPEAKS_TLS: &str =
    "the server speaks TLS on this port; use rediss in the place of redis, with the feature `tls`";

/// The error of a server that speaks TLS although the URL says plain text, or the reverse.
pub(crate) fn wrong_protocol(tls: bool) -> LockError {
    LockError::invalid_argument(if tls { SPEAKS_NO_TLS } else { SPEAKS_TLS })
}

impl TlsFault {
    /// The row of an error that is a TLS fault.
    pub(super) fn find(error: &DriverError) -> Option<&'static Self> {
        // These kinds may carry a text of the server.
        if matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Unknown | ErrorKind::Protocol) {
            return None;
        }
        let details = error.details();
        let fault = details.split_once("error: ").map_or(details, |(_, fault)| fault);
        let end = fault.find(|c: char| !c.is_alphanumeric()).unwrap_or(fault.len());
        let (name, detail) = fault.split_at(end);
        let detail = detail.trim_start_matches('(');
        FAULTS.iter().find(|row| row.name == name && detail.starts_with(row.detail))
    }

    /// Returns whether the fault happens only in a handshake, so that no command was sent yet.
    pub(super) fn is_of_a_handshake(&self) -> bool {
        matches!(
            self.name,
            "InvalidCertificate"
                | "NoCertificatesPresented"
                | "PeerIncompatible"
                | "InvalidDnsNameError"
        )
    }
}

impl fmt::Display for TlsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        if self.detail.is_empty() { Ok(()) } else { write!(f, ": {}", self.detail) }
    }
}
