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

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;

    /// A new certificate and its key, in PEM.
    fn made() -> (String, String) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    fn write(folder: &TempDir, (certificate, key): (&str, &str), mode: u32) {
        let path = folder.path().join("key");
        let _ = fs::remove_file(&path);
        fs::write(&path, key).unwrap();
        fs::write(folder.path().join("certificate"), certificate).unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        let _ = mode;
    }

    fn open(folder: &TempDir) -> Result<ClientCertificate, LockError> {
        ClientCertificate::open(&folder.path().join("certificate"), &folder.path().join("key"))
    }

    #[test]
    fn a_pair_that_cannot_be_used_is_refused_and_not_shown() {
        let ((certificate, key), (_, other)) = (made(), made());
        let damaged = key.replace("-----END", "hunter2");
        let encrypted = key.replace("PRIVATE", "ENCRYPTED PRIVATE");
        let folder = tempfile::tempdir().unwrap();
        let error = open(&folder).unwrap_err();
        assert!(error.message().contains("sslcert cannot be read"), "{error}");
        for (pair, mode, says) in [
            ((&*certificate, &*other), 0o600, "does not belong"),
            ((&certificate, &encrypted), 0o600, "encrypted"),
            ((&certificate, &damaged), 0o600, "damaged"),
            ((&certificate, "hunter2"), 0o600, "sslkey"),
            (("hunter2", &key), 0o600, "this one has none"),
            #[cfg(unix)]
            ((&certificate, &key), 0o604, "others cannot read"),
        ] {
            write(&folder, pair, mode);
            let error = open(&folder).unwrap_err();
            assert_eq!(error.code(), crate::ErrorCode::InvalidArgument, "{error}");
            assert!(error.message().contains(says), "{says}: {error}");
            assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        }
    }

    #[test]
    fn a_pair_that_was_replaced_counts_once_it_is_whole() {
        let ((old, old_key), (new, new_key)) = (made(), made());
        let folder = tempfile::tempdir().unwrap();
        write(&folder, (&old, &old_key), 0o600);
        let pair = open(&folder).unwrap();
        assert!(pair.end().is_some_and(|end| end > SystemTime::now()));
        let shown = || pair.resolve(&[], &[]).unwrap().end_entity_cert().unwrap().to_vec();
        let der = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap().to_vec();
        for half in [(&*new, &*old_key), (&old, &new_key), ("", &old_key), (&new[..300], &new_key)]
        {
            write(&folder, half, 0o600);
            assert_eq!(shown(), der(&old));
        }
        fs::remove_file(folder.path().join("key")).unwrap();
        assert_eq!(shown(), der(&old));
        write(&folder, (&new, &new_key), 0o600);
        assert_eq!(shown(), der(&new));
    }

    #[test]
    fn authorities_that_were_replaced_count() {
        let (old, new) = (made().0, made().0);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("authorities");
        fs::write(&path, &old).unwrap();
        let authorities = Authorities::open(&path).unwrap();
        let trusts = |pem: &str| {
            let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
            let name = ServerName::try_from("localhost").unwrap();
            authorities.verify_server_cert(&certificate, &[], &name, &[], UnixTime::now()).is_ok()
        };
        assert!(trusts(&old) && !trusts(&new));
        fs::write(&path, &new[..new.len() / 2]).unwrap();
        assert!(trusts(&old) && !trusts(&new));
        fs::write(&path, &new).unwrap();
        assert!(!trusts(&old) && trusts(&new));
    }
}
