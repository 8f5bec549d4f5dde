//! The certificates of TLS, in the same way on every store: by rustls with aws-lc-rs.

mod files;
mod options;
mod reread;

use std::sync::OnceLock;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;

pub use self::options::TlsOptions;
use crate::value::LockError;

/// The variables that replace the system's certificates.
const VARIABLES: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];

/// These authorities (X.509 in DER) and no others. If the list is empty: the authorities that the system trusts, or
/// Mozilla's on a system that has none. The variables `SSL_CERT_FILE` and `SSL_CERT_DIR` replace the
/// system's authorities. A process reads the system's authorities once.
///
/// # Errors
///
/// `InvalidArgument` for a certificate that cannot be read, and if the variables are set but lead to no certificate.
pub fn roots(root_certificates: &[Vec<u8>]) -> Result<RootCertStore, LockError> {
    if root_certificates.is_empty() { system() } else { chosen(root_certificates) }
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

/// The system's authorities, or Mozilla's if the system has none, as in a bare container.
fn system() -> Result<RootCertStore, LockError> {
    // Reading some hundred certificates takes longer than anything else that a connect does.
    static READ: OnceLock<RootCertStore> = OnceLock::new();
    if let Some(roots) = READ.get() {
        return Ok(roots.clone());
    }
    let system = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (_, unusable) = roots.add_parsable_certificates(system.certs);
    let unusable = unusable + system.errors.len();
    if unusable > 0 {
        tracing::debug!(unusable, "root certificates of this system that cannot be used");
    }
    if roots.is_empty() {
        // A user who names authorities wants no others.
        if VARIABLES.iter().any(|name| std::env::var_os(name).is_some()) {
            return Err(LockError::invalid_argument(
                "SSL_CERT_FILE or SSL_CERT_DIR is set, and has no certificate that can be read",
            ));
        }
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    Ok(READ.get_or_init(|| roots).clone())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_authorities_that_are_named_are_trusted_and_no_others() {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let roots = super::roots(&[made.cert.der().to_vec()]).unwrap();
        assert_eq!(roots.len(), 1);
    }
}
