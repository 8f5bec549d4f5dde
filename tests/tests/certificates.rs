//! Client certificates, and certificates and authorities that are replaced while locks are held, on each store with TLS.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use syncguard::contract::{
    AcquireRequest, Acquired, ExtendRequest, IsLockedRequest, ReleaseRequest,
};
use syncguard::{DynBackend, ErrorCode, ExtendResult, LockBackend as _, LockError, connect};
use syncguard_test_services::etcd::EtcdCluster;
use syncguard_test_services::ports;
use syncguard_test_services::postgres::{PgBouncer, PoolMode, PostgresServer};
use syncguard_test_services::redis::{RedisBuilder, RedisCluster, RedisServer, Sentinel};
use syncguard_tests::calls::{until, watch};
use tempfile::TempDir;

use crate::postgres::tls::put;

const LONG: Duration = Duration::from_secs(600);

/// The files of an authority, and of a server's and a client's certificate.
struct Files(TempDir);

impl Files {
    fn new() -> Result<Self> {
        let files = Self(tempfile::tempdir()?);
        files.replace(|_| {})?;
        Ok(files)
    }

    /// Writes new ones, of a new authority. `change` is for the client's certificate.
    fn replace(&self, change: impl FnOnce(&mut CertificateParams)) -> Result<()> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // OpenSSL takes a certificate whose subject is its issuer for one that signs itself.
        params.distinguished_name.push(DnType::CommonName, "an authority");
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        self.write("ca", &authority.pem())?;
        let mut change = Some(change);
        for name in ["server", "client"] {
            let mut params =
                CertificateParams::new(["localhost".to_owned(), "127.0.0.1".to_owned()])?;
            if let Some(change) = change.take_if(|_| name == "client") {
                change(&mut params);
            }
            let key = KeyPair::generate()?;
            self.write(name, &params.signed_by(&key, &authority)?.pem())?;
            self.write(&format!("{name}-key"), &key.serialize_pem())?;
        }
        Ok(())
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        fs::write(self.path(name), text)?;
        Ok(fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o600))?)
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    fn text(&self, name: &str) -> Result<String> {
        Ok(fs::read_to_string(self.path(name))?)
    }

    fn trusting(&self, url: &str) -> String {
        format!("{url}?sslrootcert={}", self.path("ca"))
    }

    /// A URL with the authority of these files and the client's certificate of others.
    fn showing(&self, url: &str, client: &Self) -> String {
        let (certificate, key) = (client.path("client"), client.path("client-key"));
        format!("{}&sslcert={certificate}&sslkey={key}", self.trusting(url))
    }
}

async fn take(backend: &DynBackend, key: &str) -> Result<Acquired, LockError> {
    let taken = backend.acquire(AcquireRequest::new(key, LONG)?).await?;
    taken.acquired().ok_or_else(|| LockError::internal("the key is held"))
}

async fn open(url: &str) -> Result<DynBackend, LockError> {
    let backend = connect(url).await?;
    let probe = take(&backend, "probe").await?;
    backend.release(ReleaseRequest::new(probe.lock_id)).await?;
    Ok(backend)
}

/// Locks live on while the server and this process get certificates of a new authority. `serve` gives the server the files,
/// and cuts all connections.
async fn goes_on(
    url: &str,
    files: &Files,
    mut serve: impl FnMut(&Files) -> Result<()>,
) -> Result<()> {
    // Without a certificate, with one of a stranger, and with one that has ended.
    let (stranger, ended) = (Files::new()?, Files::new()?);
    for (url, code) in [
        (files.trusting(url), ErrorCode::AuthFailed),
        (files.showing(url, &stranger), ErrorCode::AuthFailed),
        (
            format!("{}&sslcert={}", files.trusting(url), files.path("client")),
            ErrorCode::InvalidArgument,
        ),
        (files.showing(url, files).replace("client-key", "server-key"), ErrorCode::InvalidArgument),
    ] {
        let error = open(&url).await.err().context("an error")?;
        assert_eq!(error.code(), code, "{error:?}");
        assert!(error.message().contains("sslcert"), "{error:?}");
        assert!(!error.is_retryable() && !error.is_outcome_unknown(), "{error:?}");
    }

    let backend = open(&files.showing(url, files)).await?;
    let held = take(&backend, "held").await?;
    until("a watch", async || watch(&backend, "held").await.is_some()).await;
    for half_written in [true, false] {
        // A key without the rest changes nothing.
        if half_written {
            let key = files.text("client-key")?;
            files.write("client-key", &key[..key.len() / 2])?;
            serve(files)?;
            until("the old one", async || extends(&backend, &held).await).await;
            files.write("client-key", &key)?;
        }
        files.replace(|_| {})?;
        serve(files)?;
        until("the new one", async || extends(&backend, &held).await).await;
        until("a watch", async || watch(&backend, "held").await.is_some()).await;
    }
    assert!(backend.release(ReleaseRequest::new(held.lock_id)).await?.is_released());

    // The server trusts the authority of a certificate that has ended.
    ended.replace(|client| client.not_after = rcgen::date_time_ymd(2020, 1, 1))?;
    serve(&ended)?;
    let error = open(&ended.showing(url, &ended)).await.err().context("an error")?;
    assert_eq!(error.code(), ErrorCode::AuthFailed, "{error:?}");
    assert!(error.message().contains("sslcert") && !error.is_retryable(), "{error:?}");
    Ok(())
}

async fn extends(backend: &DynBackend, held: &Acquired) -> bool {
    let Ok(request) = ExtendRequest::new(held.lock_id, LONG) else { return false };
    backend.extend(request).await.is_ok_and(ExtendResult::is_extended)
}

fn settings_of_redis(files: &Files) -> [(String, String); 3] {
    [("cert-file", "server"), ("key-file", "server-key"), ("ca-cert-file", "ca")]
        .map(|(setting, name)| (format!("tls-{setting}"), files.path(name)))
}

/// Takes these files, and ends the connections of clients.
fn reload_redis(server: &RedisServer, files: &Files) -> Result<()> {
    let settings = settings_of_redis(files);
    let mut command = vec!["CONFIG", "SET"];
    command.extend(settings.iter().flat_map(|(setting, path)| [&**setting, path]));
    assert_eq!(server.cli(&command)?.trim(), "OK");
    server.cli(&["CLIENT", "KILL", "TYPE", "normal"])?;
    Ok(())
}

fn redis_with_tls(files: &Files, port: u16) -> RedisBuilder {
    let lines = lines_of_redis(files, port);
    lines.iter().fold(RedisServer::builder(), |server, line| server.config(line))
}

/// Lines of configuration for a port with TLS, whose clients show a certificate.
fn lines_of_redis(files: &Files, port: u16) -> Vec<String> {
    let files = settings_of_redis(files).map(|(setting, path)| format!("{setting} {path}"));
    let port = [format!("tls-port {port}"), "tls-auth-clients yes".to_owned()];
    port.into_iter().chain(files).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_on_redis_outlive_their_certificates() -> Result<()> {
    let (files, port) = (Files::new()?, ports::free()?);
    let server = redis_with_tls(&files, port).start()?;
    let serve = |files: &Files| reload_redis(&server, files);
    goes_on(&format!("rediss://localhost:{port}"), &files, serve).await
}

/// The URL names one node, and the driver asks it for the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_on_a_cluster_of_redis_outlive_their_certificates() -> Result<()> {
    let (files, ports) = (Files::new()?, [ports::free()?, ports::free()?, ports::free()?]);
    let node = |port| redis_with_tls(&files, port).config("tls-cluster yes");
    let cluster = RedisCluster::start_nodes(3, ports.map(node).into())?;
    let url = format!("rediss-cluster://127.0.0.1:{}", ports[0]);
    let backend = open(&files.showing(&url, &files)).await?;
    for number in 0..30 {
        let key = format!("key-{number}");
        let held = take(&backend, &key).await?;
        until("a watch", async || watch(&backend, &key).await.is_some()).await;
        assert!(extends(&backend, &held).await);
    }
    for node in cluster.nodes() {
        assert_ne!(node.cli(&["DBSIZE"])?, "0");
    }
    let serve =
        |files: &Files| cluster.nodes().iter().try_for_each(|node| reload_redis(node, files));
    goes_on(&url, &files, serve).await
}

/// The Sentinels are shown the certificate, and the master that they name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_of_redis_are_shown_the_certificate() -> Result<()> {
    let (files, ports) = (Files::new()?, [ports::free()?, ports::free()?]);
    let master = redis_with_tls(&files, ports[0]).start()?;
    let mut lines = lines_of_redis(&files, ports[1]);
    lines.push("tls-replication yes".to_owned());
    let _sentinel = Sentinel::start_with(&master, ports[0], 1, &lines)?;
    let url = format!("rediss-sentinel://127.0.0.1:{}", ports[1]);
    let name = format!("&sentinelServiceName={}", Sentinel::MASTER_NAME);

    let error = open(&format!("{}{name}", files.trusting(&url))).await.err().context("an error")?;
    assert_eq!(error.code(), ErrorCode::AuthFailed, "{error:?}");
    assert!(error.message().contains("sslcert"), "{error:?}");
    let backend = open(&format!("{}{name}", files.showing(&url, &files))).await?;
    let held = take(&backend, "held").await?;
    until("a watch", async || watch(&backend, "held").await.is_some()).await;
    assert!(backend.release(ReleaseRequest::new(held.lock_id)).await?.is_released());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_on_postgresql_outlive_their_certificates() -> Result<()> {
    let (mut server, files) = (PostgresServer::start()?, Files::new()?);
    connect(&format!("{}?setup_schema=true", server.url())).await?;
    let rules = "hostssl all all 127.0.0.1/32 trust clientcert=verify-ca\n\
                 hostnossl all all 127.0.0.1/32 trust\n";
    put(&server, "pg_hba.conf", rules)?;
    server.psql("ALTER SYSTEM SET ssl = on")?;
    server.psql("ALTER SYSTEM SET ssl_ca_file = 'ca.crt'")?;
    let url = server.url().replace("127.0.0.1", "localhost");
    let mut serve = |files: &Files| {
        for (file, name) in
            [("server.crt", "server"), ("server.key", "server-key"), ("ca.crt", "ca")]
        {
            put(&server, file, &files.text(name)?)?;
        }
        server.restart()
    };
    serve(&files)?;
    goes_on(&url, &files, serve).await
}

/// PostgreSQL takes such a request without a certificate, and `PgBouncer` does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pgbouncer_is_shown_the_certificate_of_a_request_to_cancel() -> Result<()> {
    let (server, files) = (PostgresServer::start()?, Files::new()?);
    connect(&format!("{}?setup_schema=true", server.url())).await?;
    // No session ends the statement by itself.
    server.psql("ALTER DATABASE postgres SET lock_timeout = '1h'")?;
    server.psql("ALTER DATABASE postgres SET statement_timeout = '1h'")?;
    let mut lines = vec!["client_tls_sslmode = allow".to_owned()];
    for (setting, name) in [("ca", "ca"), ("cert", "server"), ("key", "server-key")] {
        // It runs as another user.
        fs::set_permissions(files.path(name), fs::Permissions::from_mode(0o644))?;
        lines.push(format!("client_tls_{setting}_file = {}", files.path(name)));
    }
    fs::set_permissions(files.0.path(), fs::Permissions::from_mode(0o755))?;
    let lines: Vec<_> = lines.iter().map(String::as_str).collect();
    let pooler = PgBouncer::start_with(&server, PoolMode::Session, &lines)?;
    pooler.admin("SET client_tls_sslmode = 'verify-ca'")?;

    let url = pooler.url().replace("127.0.0.1", "localhost");
    let options = "sslmode=require&statement_timeout_ms=500&signals=false";
    let backend = open(&format!("{}&{options}", files.showing(&url, &files))).await?;
    let locker = crate::postgres::support::connect(&server.url()).await;
    locker.batch_execute("BEGIN; LOCK TABLE syncguard_locks IN ACCESS EXCLUSIVE MODE").await?;
    let error = backend.is_locked(IsLockedRequest::new("k")?).await.err().context("an error")?;
    assert_eq!(error.code(), ErrorCode::NetworkTimeout, "{error:?}");
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    until("a cancelled statement", async || server.psql(waiting).unwrap() == "0").await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_on_etcd_outlive_their_certificates() -> Result<()> {
    let files = Files::new()?;
    // A member reads its own certificate anew, and its authorities at its start.
    let served = Files::new()?;
    let copy = |files: &Files| -> Result<()> {
        ["ca", "server", "server-key"]
            .iter()
            .try_for_each(|name| served.write(name, &files.text(name)?))
    };
    copy(&files)?;
    let mut cluster = EtcdCluster::builder()
        .tls(served.path("server").as_ref(), served.path("server-key").as_ref())
        .flag("--client-cert-auth")
        .flag(format!("--trusted-ca-file={}", served.path("ca")))
        .start(1)?;
    let url = cluster.url();
    goes_on(&url, &files, |files| {
        copy(files)?;
        cluster.restart(0)
    })
    .await
}
