//! TLS by rustls, for the connections that `connect` opens.

use std::sync::Arc;

use fred::types::config::TlsConnector;
use rustls::{ClientConfig, RootCertStore};
use syncguard_core::LockError;

/// What a system's certificates are replaced with, by name.
const VARIABLES: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];

/// Verifies the server's certificate and its name.
///
/// Not fred's own connector: that one asks rustls for its default provider, and rustls panics if the
/// program has two; and it fails altogether if a single certificate of the system cannot be read.
pub(crate) fn connector() -> Result<TlsConnector, LockError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| LockError::internal("rustls has no protocol").with_source(&error))?
        .with_root_certificates(roots()?)
        .with_no_client_auth();
    Ok(config.into())
}

/// The system's authorities; Mozilla's where there are none, as in a bare container.
fn roots() -> Result<RootCertStore, LockError> {
    let system = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (_, unusable) = roots.add_parsable_certificates(system.certs);
    let unusable = unusable + system.errors.len();
    if unusable > 0 {
        tracing::debug!(unusable, "root certificates of this system that cannot be used");
    }
    if roots.is_empty() {
        // Whoever names authorities wants no others.
        if VARIABLES.iter().any(|name| std::env::var_os(name).is_some()) {
            return Err(LockError::invalid_argument(
                "SSL_CERT_FILE or SSL_CERT_DIR is set, and has no certificate that can be read",
            ));
        }
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    Ok(roots)
}
