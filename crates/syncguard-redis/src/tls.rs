//! TLS by rustls, for the connections that `connect` opens.

use fred::types::config::TlsConnector;
use syncguard_core::LockError;
use syncguard_core::authoring::tls::client_config;

/// Verifies the server's certificate and its name: by these authorities (DER), or by those of the system
/// if there are none.
///
/// Not fred's own connector: that one asks rustls for its default provider, and rustls panics if the
/// program has two; and it fails altogether if a single certificate of the system cannot be read.
pub(crate) fn connector(root_certificates: &[Vec<u8>]) -> Result<TlsConnector, LockError> {
    Ok(client_config(root_certificates)?.into())
}
