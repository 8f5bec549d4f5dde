//! The TLS configuration of the connections that `connect` opens.

use fred::types::config::TlsConnector;
use syncguard_core::LockError;
use syncguard_core::authoring::tls::client_config;

/// A connector that verifies the server's certificate and name, by these authorities (DER) or, if there are none,
/// by the system's.
///
/// fred's own connector has two faults. It asks rustls for the default provider, and rustls panics if the program
/// has two providers. It also fails if a single certificate of the system cannot be read.
pub(crate) fn connector(root_certificates: &[Vec<u8>]) -> Result<TlsConnector, LockError> {
    Ok(client_config(root_certificates)?.into())
}
