//! Encrypted connections, and their errors.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Result;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use syncguard_redis::contract::ReleaseRequest;
use syncguard_redis::{ErrorCode, LockBackend as _, LockError, RedisBackend, RedisOptions};
use syncguard_test_services::ports;
use syncguard_test_services::redis::RedisServer;

use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;

use crate::redis::signals::watch;
use crate::redis::support::{fresh, take};

/// A certificate authority.
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
        let key = fresh("tls");
        let lock = take(&backend, &key, 60_000).await;
        // Signals use TLS as well.
        assert!(watch(&backend, &key).await.is_some_and(|watch| watch.is_locked));
        assert!(backend.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());
    }
    // Named authorities replace all others.
    let other = with_file(&stranger.file()?);
    for (url, options) in [
        (url.clone(), RedisOptions::new()),
        (url.clone(), trusting(&stranger)),
        (other, trusting(&authority)),
    ] {
        let error = refusal(&url, options).await;
        assert_eq!(error.code(), ErrorCode::AuthFailed, "{error:?}");
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

/// Each error has a clear text, and none of them is retryable.
#[tokio::test]
async fn what_cannot_be_trusted_is_said_to_be_so() -> Result<()> {
    let (authority, stranger) = (Authority::new()?, Authority::new()?);
    let here: &[&str] = &["localhost"];
    let past = rcgen::date_time_ymd(2020, 1, 1);
    let future = rcgen::date_time_ymd(2090, 1, 1);
    for (server, says) in [
        (authority.server(here, |it| it.not_after = past, &[])?, "expired"),
        (authority.server(here, |it| it.not_before = future, &[])?, "not valid yet"),
        (authority.server(&["elsewhere"], |_| {}, &[])?, "other names"),
        (stranger.server(here, |_| {}, &[])?, "sslrootcert"),
        (authority.server(here, |_| {}, &["tls-auth-clients yes"])?, "client certificate"),
        (
            authority.server(here, |_| {}, &["tls-auth-clients yes", "tls-protocols TLSv1.2"])?,
            "client certificate",
        ),
    ] {
        let cluster = server.url().replace("rediss", "rediss-cluster");
        for (url, options) in [
            (server.url(), trusting(&authority)),
            (cluster, trusting(&authority).with_key_prefix("{app}")),
        ] {
            let error = refusal(&url, options).await;
            assert_eq!(error.code(), ErrorCode::AuthFailed, "{says}: {error:?}");
            assert!(error.message().contains(says), "{says}: {error}");
        }
    }
    // A self-signed certificate; and a certificate for an address.
    let server = authority.server(here, |_| {}, &[])?;
    let error = refusal(&server.url(), RedisOptions::new()).await;
    assert!(error.message().contains("sslrootcert"), "{error}");
    let address = server.url().replace("localhost", "127.0.0.1");
    let error = refusal(&address, trusting(&authority)).await;
    assert_eq!(error.code(), ErrorCode::AuthFailed, "{error:?}");
    assert!(error.message().contains("other names"), "{error}");
    // OpenSSL may not offer such an old version at all.
    if let Ok(old) = authority.server(here, |_| {}, &["tls-protocols TLSv1.1"]) {
        let error = refusal(&old.url(), trusting(&authority)).await;
        assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error:?}");
        assert!(error.message().contains("TLS 1.2"), "{error}");
    }
    Ok(())
}

/// Redis does not answer a client with the wrong protocol: it waits, or closes the connection.
#[tokio::test]
async fn a_port_of_the_other_kind_is_said_to_be_one() -> Result<()> {
    const QUICK: Duration = Duration::from_secs(3);
    let authority = Authority::new()?;
    let encrypted = authority.server(&["localhost"], |_| {}, &[])?;
    let only_13 = authority.server(&["localhost"], |_| {}, &["tls-protocols TLSv1.3"])?;
    let (plain, secret) = (RedisServer::start()?, RedisServer::builder().password("p").start()?);
    for (scheme, port, says) in [
        ("rediss", plain.port(), "speaks no TLS"),
        ("rediss", secret.port(), "speaks no TLS"),
        ("rediss-cluster", plain.port(), "speaks no TLS"),
        ("redis", encrypted.port, "use rediss"),
        ("redis", only_13.port, "use rediss"),
        ("redis-cluster", encrypted.port, "use rediss"),
    ] {
        for limit in [QUICK, Duration::from_secs(5)] {
            let url = format!("{scheme}://:p@localhost:{port}?key_prefix=%7Bapp%7D");
            let started = Instant::now();
            let options = trusting(&authority).with_connect_timeout(limit);
            let error = refusal(&url, options).await;
            assert_eq!(error.code(), ErrorCode::InvalidArgument, "{scheme}: {error:?}");
            assert!(error.message().contains(says), "{scheme}: {error}");
            assert!(started.elapsed() < limit, "{scheme}: {:?}", started.elapsed());
        }
    }
    Ok(())
}

/// A server that is away is not reported as a permanent error.
#[tokio::test]
async fn a_server_that_is_away_is_tried_again_with_tls_as_well() -> Result<()> {
    let authority = Authority::new()?;
    let nobody = ports::free()?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let hangs_up = listener.local_addr()?.port();
    tokio::spawn(async move { while listener.accept().await.is_ok() {} });
    let silent = TcpListener::bind("127.0.0.1:0").await?;
    let stays_silent = silent.local_addr()?.port();
    for scheme in ["redis", "rediss"] {
        for port in [nobody, hangs_up, stays_silent] {
            let url = format!("{scheme}://127.0.0.1:{port}?connect_timeout_ms=400");
            let error = refusal(&url, trusting(&authority)).await;
            assert!(error.is_retryable(), "{error:?}");
        }
    }
    Ok(())
}

/// All traffic is TLS, except for the probe whether the server speaks TLS.
#[tokio::test]
async fn a_url_with_tls_sends_nothing_of_ours_in_plain_text() -> Result<()> {
    const SECRET: &str = "s3cret-passw0rd";
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("rediss://:{SECRET}@{}?connect_timeout_ms=400", listener.local_addr()?);
    let (tell, mut said) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let tell = tell.clone();
            tokio::spawn(async move {
                let mut all = Vec::new();
                let _ = client.read_to_end(&mut all).await;
                let _ = tell.send(all);
            });
        }
    });
    refusal(&url, RedisOptions::new()).await;
    let mut connections = 0;
    while let Ok(Some(all)) = tokio::time::timeout(Duration::from_secs(1), said.recv()).await {
        connections += 1;
        assert!(all.starts_with(&[0x16, 3]) || all == b"PING\r\n", "{all:?}");
        assert!(!all.windows(SECRET.len()).any(|part| part == SECRET.as_bytes()));
    }
    assert!(connections >= 1);
    Ok(())
}
