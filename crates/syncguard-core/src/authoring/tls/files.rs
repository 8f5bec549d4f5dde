//! The authorities and the client certificate of files that may be replaced.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, WebPkiServerVerifier};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, DigitallySignedStruct, Error, InconsistentKeys, RootCertStore,
    SignatureScheme,
};

use super::chosen;
use super::reread::Reread;
use crate::authoring::backend_url::{CERTIFICATE, KEY, ROOTS};
use crate::value::LockError;

/// Verifies servers by the authorities of a file.
#[derive(Debug)]
pub(super) struct Authorities(Reread<Arc<WebPkiServerVerifier>>);

/// Shows the certificate of two files.
#[derive(Debug)]
pub(super) struct ClientCertificate(Reread<Arc<CertifiedKey>>);

impl Authorities {
    pub(super) fn open(path: &Path) -> Result<Self, LockError> {
        Reread::open(&[(ROOTS, path.to_owned())], verifier).map(Self)
    }
}

impl ClientCertificate {
    pub(super) fn open(certificate: &Path, key: &Path) -> Result<Self, LockError> {
        let sources = [(CERTIFICATE, certificate.to_owned()), (KEY, key.to_owned())];
        Reread::open(&sources, certified_key).map(Self)
    }

    /// When it ends.
    pub(super) fn end(&self) -> Option<SystemTime> {
        // A verifier of rustls names the end of what has ended, before it looks at anything else.
        let shown = self.0.current();
        let certificate = shown.end_entity_cert().ok()?;
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).ok()?;
        let name = ServerName::try_from("localhost").ok()?;
        let later = UnixTime::since_unix_epoch(Duration::from_secs(u64::MAX));
        let verifier = verifier_of(roots).ok()?;
        match verifier.verify_server_cert(certificate, &[], &name, &[], later) {
            Err(Error::InvalidCertificate(CertificateError::ExpiredContext {
                not_after, ..
            })) => Some(SystemTime::UNIX_EPOCH + Duration::from_secs(not_after.as_secs())),
            _ => None,
        }
    }
}

fn verifier(contents: &[Vec<u8>]) -> Result<Arc<WebPkiServerVerifier>, LockError> {
    verifier_of(chosen(&certificates(ROOTS, contents.first())?)?)
}

fn verifier_of(roots: RootCertStore) -> Result<Arc<WebPkiServerVerifier>, LockError> {
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::new(default_provider()))
        .build()
        .map_err(|error| LockError::internal("rustls has no verifier").with_source(&error))
}

fn certified_key(contents: &[Vec<u8>]) -> Result<Arc<CertifiedKey>, LockError> {
    let chain = certificates(CERTIFICATE, contents.first())?;
    let chain = chain.into_iter().map(CertificateDer::from).collect();
    let text = contents.get(1).map_or(&[][..], Vec::as_slice);
    let key = PrivateKeyDer::from_pem_slice(text).map_err(|_| {
        LockError::invalid_argument(if text.windows(9).any(|part| part == b"ENCRYPTED") {
            "the key of sslkey is encrypted, and nobody is there to give its password; `openssl pkey` decrypts it"
        } else {
            "the file of sslkey must have a private key in PEM; this one has none, or is damaged"
        })
    })?;
    let made = CertifiedKey::from_der(chain, key, &default_provider());
    made.map(Arc::new).map_err(|error| {
        LockError::invalid_argument(match error {
            Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                "the key of sslkey does not belong to the first certificate of sslcert"
            }
            Error::InvalidCertificate(_) => "the certificate of sslcert cannot be read",
            _ => "the key of sslkey cannot be used; RSA, ECDSA and Ed25519 keys can",
        })
    })
}

/// The certificates of a PEM file, one or more. No error quotes the file, because the path may lead to any file.
fn certificates(name: &str, pem: Option<&Vec<u8>>) -> Result<Vec<Vec<u8>>, LockError> {
    let certificates = CertificateDer::pem_slice_iter(pem.map_or(&[], Vec::as_slice));
    let certificates: Result<Vec<_>, pem::Error> =
        certificates.map(|certificate| Ok(certificate?.to_vec())).collect();
    let wrong = match certificates {
        Ok(certificates) if !certificates.is_empty() => return Ok(certificates),
        Ok(_) => "has none",
        Err(_) => "is damaged",
    };
    Err(LockError::invalid_argument(format!(
        "the file of {name} must have certificates in PEM; this one {wrong}"
    )))
}

impl ServerCertVerifier for Authorities {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.0.current().verify_server_cert(end_entity, intermediates, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.last().verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.last().verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.last().supported_verify_schemes()
    }
}

impl ResolvesClientCert for ClientCertificate {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.0.current())
    }

    fn has_certs(&self) -> bool {
        true
    }
}
