//! The table of TLS faults, by the texts that rustls has for them. Some drivers keep nothing else of an error.

use std::fmt;

use crate::value::{ErrorCode, LockError};

use ErrorCode::{AuthFailed, InvalidArgument};

/// A fault of TLS: its meaning, and the mend. No fault is worth another try.
///
/// ```
/// use syncguard_core::authoring::TlsFault;
///
/// let fault = TlsFault::find("InvalidCertificate(UnknownIssuer)").unwrap();
/// assert!(fault.message.contains("sslrootcert"));
/// assert!(TlsFault::find("UnexpectedEof").is_none());
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct TlsFault {
    name: &'static str,
    /// The start of the text in the parentheses after the name.
    detail: &'static str,
    /// `AuthFailed` or `InvalidArgument`.
    pub code: ErrorCode,
    /// For people.
    pub message: &'static str,
}

/// The first row that fits counts.
const FAULTS: &[TlsFault] = &[
    row("InvalidCertificate", "Expired", AuthFailed, EXPIRED),
    row("InvalidCertificate", "NotValidYet", AuthFailed, NOT_VALID_YET),
    row("InvalidCertificate", "NotValidForName", AuthFailed, OTHER_NAMES),
    row("InvalidCertificate", "UnknownIssuer", AuthFailed, UNTRUSTED),
    row("InvalidCertificate", "BadSignature", AuthFailed, UNTRUSTED),
    row("InvalidCertificate", "", AuthFailed, UNUSABLE),
    row("NoCertificatesPresented", "", AuthFailed, "the server showed no certificate"),
    row("AlertReceived", "CertificateRequired", AuthFailed, WANTS_A_CERTIFICATE),
    row("AlertReceived", "CertificateExpired", AuthFailed, CLIENT_EXPIRED),
    row("AlertReceived", "CertificateRevoked", AuthFailed, WANTS_ANOTHER),
    row("AlertReceived", "BadCertificate", AuthFailed, WANTS_ANOTHER),
    row("AlertReceived", "UnsupportedCertificate", AuthFailed, WANTS_ANOTHER),
    row("AlertReceived", "CertificateUnknown", AuthFailed, WANTS_ANOTHER),
    row("AlertReceived", "UnknownCA", AuthFailed, WANTS_ANOTHER),
    row("AlertReceived", "DecryptError", AuthFailed, WANTS_ANOTHER),
    row("AlertReceived", "AccessDenied", AuthFailed, WANTS_ANOTHER),
    // A server with TLS 1.2 sends this if it misses the client's certificate.
    row("AlertReceived", "HandshakeFailure", AuthFailed, NO_HANDSHAKE),
    row("AlertReceived", "UnrecognisedName", AuthFailed, OTHER_NAMES),
    row("AlertReceived", "ProtocolVersion", InvalidArgument, NOTHING_IN_COMMON),
    row("AlertReceived", "InsufficientSecurity", InvalidArgument, NOTHING_IN_COMMON),
    row("PeerIncompatible", "", InvalidArgument, NOTHING_IN_COMMON),
    row("InvalidMessage", "", InvalidArgument, "the server speaks no TLS on this port"),
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
const UNUSABLE: &str = "the server's certificate cannot be used; sslrootcert in the URL may name another one than the server shows";
const WANTS_A_CERTIFICATE: &str =
    "the server wants a client certificate; sslcert and sslkey in the URL name the files of one";
const WANTS_ANOTHER: &str = "the server does not accept the client certificate, or the lack of one; sslcert and sslkey in the URL \
                             name the files of one, signed by an authority that the server trusts";
const CLIENT_EXPIRED: &str =
    "the client certificate of sslcert has expired, or the clock of the server is wrong";
const NO_HANDSHAKE: &str = "the server refused the TLS handshake; if it wants a client certificate, sslcert and sslkey in the \
                            URL name the files of one";
const NOTHING_IN_COMMON: &str =
    "the server and this client share no TLS version or no cipher; TLS 1.2 and 1.3 are supported";
const NO_NAME: &str = "the host of the URL is none that a certificate can be for";

impl TlsFault {
    /// The fault that this `Debug` text of rustls tells of.
    #[must_use]
    pub fn find(text: &str) -> Option<&'static Self> {
        let end = text.find(|c: char| !c.is_alphanumeric()).unwrap_or(text.len());
        let (name, detail) = text.split_at_checked(end)?;
        let detail = detail.trim_start_matches('(');
        FAULTS.iter().find(|row| row.name == name && detail.starts_with(row.detail))
    }

    /// True if it happens only in a handshake, so that nothing was sent before.
    #[must_use]
    pub fn is_of_a_handshake(&self) -> bool {
        matches!(
            self.name,
            "InvalidCertificate"
                | "NoCertificatesPresented"
                | "PeerIncompatible"
                | "InvalidDnsNameError"
        )
    }

    /// True if the server answers in another protocol than TLS.
    #[must_use]
    pub fn is_no_tls(&self) -> bool {
        self.name == "InvalidMessage"
    }

    /// The error.
    #[must_use]
    pub fn error(&self) -> LockError {
        LockError::new(self.code, self.message)
    }
}

impl fmt::Display for TlsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        if self.detail.is_empty() { Ok(()) } else { write!(f, ": {}", self.detail) }
    }
}
