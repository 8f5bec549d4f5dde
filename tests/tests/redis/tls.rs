//! Encrypted connections, and what goes wrong with them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use syncguard_redis::{
    ErrorCode, LockBackend as _, LockError, RedisBackend, RedisOptions, ReleaseRequest,
};
use syncguard_test_services::ports;
use syncguard_test_services::redis::RedisServer;

use crate::support::{fresh, take};

/// Somebody who signs certificates.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Result<Self> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Ok(Self(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?))
    }

    fn der(&self) -> Vec<u8> {
        self.0.der().to_vec()
    }

    /// Its certificate, in a file.
    fn file(&self) -> Result<PathBuf> {
        file("authority", &self.0.pem())
    }

    /// A server with a certificate for these names, from today on unless `change` says otherwise.
    fn server(
        &self,
        names: &[&str],
        change: impl FnOnce(&mut CertificateParams),
        settings: &[&str],
    ) -> Result<TlsServer> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names)?;
        change(&mut params);
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.0)?;
        let port = ports::free()?;
        let [certificate, key, authority] = [
            file("certificate", &certificate.pem())?,
            file("key", &key.serialize_pem())?,
            self.file()?,
        ]
        .map(|path| path.display().to_string());
        let mut server = RedisServer::builder()
            .config(&format!("tls-port {port}"))
            .config(&format!("tls-cert-file {certificate}"))
            .config(&format!("tls-key-file {key}"))
            .config(&format!("tls-ca-cert-file {authority}"))
            .config("tls-auth-clients no");
        for line in settings {
            server = server.config(line);
        }
        Ok(TlsServer { _server: server.start()?, port })
    }
}

/// A server that also listens with TLS.
struct TlsServer {
    _server: RedisServer,
    port: u16,
}

impl TlsServer {
    fn url(&self) -> String {
        format!("rediss://localhost:{}", self.port)
    }
}

fn file(what: &str, text: &str) -> Result<PathBuf> {
    let name = format!("{}-{}.pem", fresh(&format!("redis-tls-{what}")), std::process::id());
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, text)?;
    Ok(path)
}

fn trusting(authority: &Authority) -> RedisOptions {
    RedisOptions::new().with_root_certificate(authority.der())
}

async fn refusal(url: &str, options: RedisOptions) -> LockError {
    let error = RedisBackend::connect_with(url, options).await.unwrap_err();
    assert!(!error.is_outcome_unknown(), "{error:?}");
    error
}

#[tokio::test]
async fn an_authority_of_ones_own_is_trusted_where_it_is_named() -> Result<()> {
    let (authority, stranger) = (Authority::new()?, Authority::new()?);
    let server = authority.server(&["localhost", "127.0.0.1"], |_| {}, &[])?;
    let url = server.url();
    let with_file = |path: &Path| format!("{url}?sslrootcert={}", path.display());
    let right = with_file(&authority.file()?);
    for (url, options) in [
        (url.clone(), trusting(&authority)),
        (url.clone(), trusting(&stranger).with_root_certificate(authority.der())),
        (url.replace("localhost", "127.0.0.1"), trusting(&authority)),
        (right.clone(), RedisOptions::new()),
        // The URL wins.
        (right.clone(), trusting(&stranger)),
    ] {
        let backend = RedisBackend::connect_with(&url, options).await?;
        let lock = take(&backend, &fresh("tls"), 60_000).await;
        assert!(backend.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());
    }
    // Named authorities stand in the place of all others.
    let other = with_file(&stranger.file()?);
    for (url, options) in [
        (url.clone(), RedisOptions::new()),
        (url.clone(), trusting(&stranger)),
        (other, trusting(&authority)),
    ] {
        refusal(&url, options).await;
    }
    Ok(())
}

#[tokio::test]
async fn a_file_that_is_none_of_certificates_is_refused_and_not_shown() -> Result<()> {
    const SECRET: &str = "hunter2";
    let key = KeyPair::generate()?.serialize_pem();
    let whole = Authority::new()?.0.pem();
    for (text, says) in [
        ("", "has none"),
        (SECRET, "has none"),
        (&key, "has none"),
        (&whole.replace("-----END", "hunter2"), "damaged"),
        ("-----BEGIN hunter2\n", "damaged"),
        ("-----BEGIN CERTIFICATE-----\n!hunter2\n-----END CERTIFICATE-----\n", "damaged"),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "X.509 in DER"),
    ] {
        let url = format!("rediss://localhost?sslrootcert={}", file("bad", text)?.display());
        let error = refusal(&url, RedisOptions::new()).await;
        assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error:?}");
        assert!(error.message().contains("sslrootcert"), "{error}");
        assert!(error.message().contains(says), "{text}: {error}");
        assert!(!format!("{error} {error:?}").contains(SECRET), "{error:?}");
    }
    let missing = "rediss://localhost?sslrootcert=/hunter2/ca.pem";
    let error = refusal(missing, RedisOptions::new()).await;
    assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error:?}");
    assert!(error.message().contains("sslrootcert") && error.message().contains("cannot be read"));
    assert!(format!("{error:?}").contains("No such file"), "{error:?}");
    assert!(!format!("{error} {error:?}").contains(SECRET), "{error:?}");
    let garbage = RedisOptions::new().with_root_certificate(b"garbage");
    let error = refusal("rediss://localhost", garbage).await;
    assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error:?}");
    Ok(())
}
