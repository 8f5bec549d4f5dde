//! TLS faults in the errors of fred, and the servers that speak another protocol than the URL says.
//!
//! fred keeps a fault as text inside the text of an I/O error:
//! `Custom { kind: InvalidData, error: InvalidCertificate(UnknownIssuer) }`.

use fred::error::{Error as DriverError, ErrorKind};
use syncguard_core::LockError;
use syncguard_core::authoring::TlsFault;

const SPEAKS_NO_TLS: &str = "the server speaks no TLS on this port; use its TLS port, or redis in the place of rediss if plain \
     text is enough";
const SPEAKS_TLS: &str =
    "the server speaks TLS on this port; use rediss in the place of redis, with the feature `tls`";

/// The error of a server that speaks TLS although the URL says plain text, or the reverse.
pub(crate) fn wrong_protocol(tls: bool) -> LockError {
    LockError::invalid_argument(if tls { SPEAKS_NO_TLS } else { SPEAKS_TLS })
}

/// The fault in an error that is one of TLS.
pub(super) fn fault(error: &DriverError) -> Option<&'static TlsFault> {
    // These kinds may carry a text of the server.
    if matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Unknown | ErrorKind::Protocol) {
        return None;
    }
    let details = error.details();
    TlsFault::find(details.split_once("error: ").map_or(details, |(_, fault)| fault))
}

/// The mend.
pub(super) fn message(fault: &TlsFault) -> &'static str {
    if fault.is_no_tls() { SPEAKS_NO_TLS } else { fault.message }
}
