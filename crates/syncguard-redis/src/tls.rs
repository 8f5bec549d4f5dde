//! TLS by rustls, for the connections that `connect` opens.

use std::sync::Arc;

use fred::types::config::TlsConnector;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::{ClientConfig, RootCertStore};
use syncguard_core::LockError;

/// What a system's certificates are replaced with, by name.
const VARIABLES: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];

/// Verifies the server's certificate and its name: by these authorities (DER), or by those of the system
/// if there are none.
///
/// Not fred's own connector: that one asks rustls for its default provider, and rustls panics if the
/// program has two; and it fails altogether if a single certificate of the system cannot be read.
pub(crate) fn connector(root_certificates: &[Vec<u8>]) -> Result<TlsConnector, LockError> {
    let roots = if root_certificates.is_empty() { system() } else { chosen(root_certificates) };
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| LockError::internal("rustls has no protocol").with_source(&error))?
        .with_root_certificates(roots?)
        .with_no_client_auth();
    Ok(config.into())
}

/// The certificates of a PEM file, one or more. No error quotes from the file, which may be any.
pub(crate) fn read_certificates(path: &str) -> Result<Vec<Vec<u8>>, LockError> {
    const WRONG: &str = "the parameter sslrootcert of the URL must be a file of PEM certificates";
    let read = |result: Result<CertificateDer<'_>, pem::Error>| match result {
        Ok(certificate) => Ok(certificate.to_vec()),
        Err(pem::Error::Io(error)) => {
            Err(LockError::invalid_argument(format!("{WRONG}; it cannot be read"))
                .with_source(&error))
        }
        Err(_) => Err(LockError::invalid_argument(format!("{WRONG}; this one is damaged"))),
    };
    let certificates = match CertificateDer::pem_file_iter(path) {
        Ok(certificates) => certificates.map(read).collect::<Result<Vec<_>, _>>()?,
        Err(error) => vec![read(Err(error))?],
    };
    if certificates.is_empty() {
        return Err(LockError::invalid_argument(format!("{WRONG}; this one has none")));
    }
    Ok(certificates)
}

/// The authorities that the program or the URL names, and no others.
fn chosen(root_certificates: &[Vec<u8>]) -> Result<RootCertStore, LockError> {
    let mut roots = RootCertStore::empty();
    for der in root_certificates {
        roots.add(CertificateDer::from(der.as_slice())).map_err(|error| {
            LockError::invalid_argument(
                "a root certificate cannot be used: with_root_certificate takes X.509 in DER, and \
                 sslrootcert a file of them in PEM",
            )
            .with_source(&error)
        })?;
    }
    Ok(roots)
}

/// The system's authorities; Mozilla's where there are none, as in a bare container.
fn system() -> Result<RootCertStore, LockError> {
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
