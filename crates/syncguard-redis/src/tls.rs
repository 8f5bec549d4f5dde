//! The TLS configuration of the connections that `connect` opens.

use fred::types::config::TlsConnector;
use syncguard_core::LockError;
use syncguard_core::authoring::tls::TlsOptions;

/// A connector that verifies the server's certificate and name.
///
/// fred's own connector has two faults. It asks rustls for the default provider, and rustls panics if the program
/// has two providers. It also fails if a single certificate of the system cannot be read.
pub(crate) fn connector(options: &TlsOptions) -> Result<TlsConnector, LockError> {
    Ok(options.client_config()?.into())
}
