//! The options of TLS that every backend has, and the methods that set them.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use rustls::ClientConfig;
use rustls::client::Resumption;

use super::files::{Authorities, ClientCertificate};
use super::roots;
use crate::authoring::backend_url::{BackendUrl, CERTIFICATE, KEY, ROOTS};
use crate::value::LockError;

/// Whom a backend trusts, and the certificate that it shows. [`tls_options`](crate::tls_options) writes the methods that
/// set them.
#[derive(Clone, Default)]
pub struct TlsOptions {
    /// X.509 in DER. The system's authorities count if there are none, and no file.
    pub root_certificates: Vec<Vec<u8>>,
    /// A PEM file of the authorities to trust instead.
    pub root_file: Option<PathBuf>,
    /// The PEM files of the certificate, with those of its authorities behind it, and of its key.
    pub client_files: Option<(PathBuf, PathBuf)>,
}

impl TlsOptions {
    /// Takes over the parameters `sslrootcert`, `sslcert` and `sslkey` of a URL.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a value that cannot be decoded, and for `sslcert` without `sslkey` or the reverse.
    pub fn read_url(&mut self, url: &BackendUrl<'_>) -> Result<(), LockError> {
        if let Some(path) = url.text(ROOTS)? {
            self.root_certificates.clear();
            // As in libpq.
            self.root_file = (path != "system").then(|| path.into());
        }
        match (url.text(CERTIFICATE)?, url.text(KEY)?) {
            (Some(certificate), Some(key)) => {
                self.client_files = Some((certificate.into(), key.into()));
            }
            (None, None) => {}
            _ => {
                return Err(LockError::invalid_argument(
                    "the URL has one of the parameters sslcert and sslkey; a client certificate needs both",
                ));
            }
        }
        Ok(())
    }

    /// Verifies the server's certificate and its name, and shows the client's certificate to a server that asks for one.
    /// The files are read now, and again in each handshake: what replaces them counts from the next connection on, and a
    /// replacement that cannot be used changes nothing but the log.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a file or a certificate that cannot be used, for a key that others can read, is encrypted or
    /// belongs to another certificate, and as [`roots`]. No error quotes a path or a file.
    pub fn client_config(&self) -> Result<ClientConfig, LockError> {
        // Named, because rustls panics if it must choose and the program has two.
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| LockError::internal("rustls has no protocol").with_source(&error))?;
        let builder = match &self.root_file {
            None => builder.with_root_certificates(roots(&self.root_certificates)?),
            Some(path) => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Authorities::open(path)?)),
        };
        let mut config = match &self.client_files {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let shown = ClientCertificate::open(certificate, key)?;
                builder.with_client_cert_resolver(Arc::new(shown))
            }
        };
        // A session that is taken up again would be one of the certificates of its beginning.
        config.resumption = Resumption::disabled();
        Ok(config)
    }

    /// When the client certificate ends. `None` without one.
    ///
    /// # Errors
    ///
    /// As [`client_config`](Self::client_config), for the files of the client certificate.
    pub fn client_certificate_end(&self) -> Result<Option<SystemTime>, LockError> {
        let Some((certificate, key)) = &self.client_files else { return Ok(None) };
        Ok(ClientCertificate::open(certificate, key)?.end())
    }
}

/// Shows no path, which may lead to the key.
impl fmt::Debug for TlsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsOptions")
            .field("root_certificates", &self.root_certificates.len())
            .field("has_root_file", &self.root_file.is_some())
            .field("has_client_certificate", &self.client_files.is_some())
            .finish()
    }
}

/// Writes the methods that set the [`TlsOptions`](crate::authoring::tls::TlsOptions) in this field, for the options of a
/// backend.
#[doc(hidden)]
#[macro_export]
macro_rules! tls_options {
    ($field:ident) => {
        /// Trusts this authority's certificate (X.509 in DER), and others that are added in the same way, instead of the
        /// system's. A client or a pool of your own has its own TLS.
        ///
        /// A certificate that cannot be read is an `InvalidArgument` when the backend is made. The parameter `sslrootcert`
        /// of a URL replaces all certificates that are added here.
        pub fn with_root_certificate(
            mut self,
            der: impl ::core::convert::Into<::std::vec::Vec<u8>>,
        ) -> Self {
            self.$field.root_certificates.push(der.into());
            self
        }

        /// Trusts the authorities of this PEM file and no others. In a URL: `sslrootcert`. Each new connection goes by the
        /// file as it is then: see [`with_client_certificate`](Self::with_client_certificate).
        pub fn with_root_certificate_file(
            mut self,
            path: impl ::core::convert::Into<::std::path::PathBuf>,
        ) -> Self {
            self.$field.root_file = ::core::option::Option::Some(path.into());
            self
        }

        /// Shows this certificate to a server that asks for one: a PEM file with the certificate and the intermediate ones
        /// behind it, and one with its key, RSA, ECDSA or Ed25519. In a URL: `sslcert` and `sslkey`. Default: none.
        ///
        /// As for libpq, the key must be a regular file that others cannot read: mode 0600 or less, or 0640 or less if
        /// root owns it. An encrypted key is refused.
        ///
        /// Each new connection reads the files, so files that were replaced count from then on. If they cannot be used, or do
        /// not belong together yet, the last good ones stay in use, and the log has a warning.
        pub fn with_client_certificate(
            mut self,
            certificate: impl ::core::convert::Into<::std::path::PathBuf>,
            key: impl ::core::convert::Into<::std::path::PathBuf>,
        ) -> Self {
            let files = (certificate.into(), key.into());
            self.$field.client_files = ::core::option::Option::Some(files);
            self
        }
    };
}
