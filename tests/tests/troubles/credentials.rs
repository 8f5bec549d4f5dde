//! Passwords that change while a backend lives.

use std::sync::{Arc, Mutex};

use anyhow::{Context as _, Result, ensure};
use syncguard::contract::{AcquireRequest, IsLockedRequest};
use syncguard::{
    Credentials, CredentialsProvider, DynBackend, ErrorCode, LockBackend as _, LockConfig,
    LockError, connect_with_credentials, try_acquire,
};
use syncguard_test_services::etcd::EtcdCluster;
use syncguard_test_services::postgres::{Authentication, PostgresServer};
use syncguard_test_services::redis::{RedisCluster, RedisServer, Sentinel};

use syncguard_tests::calls::until;

use super::{MINUTE, failures_before_an_extend, take};

const PASSWORDS: [&str; 2] = ["hunter2-first", "hunter2-second"];

/// The present answer of the provider: the password with this number.
#[derive(Clone, Default)]
struct Now(Arc<Mutex<usize>>);

impl Now {
    fn provider(&self) -> CredentialsProvider {
        let now = self.clone();
        CredentialsProvider::new(move || {
            let password = PASSWORDS.get(*now.0.lock().unwrap());
            let limited = || LockError::new(ErrorCode::RateLimited, "the vault is busy");
            let given = password.map(|password| Credentials::password(*password).with_user("app"));
            async move { given.ok_or_else(limited) }
        })
    }
}

/// `changes` sets the server's password and cuts all connections.
async fn outlives(url: &str, changes: impl Fn(&str) -> Result<()>) -> Result<()> {
    let now = Now::default();
    let backend = connect_with_credentials(url, now.provider()).await?;
    ensure!(!format!("{backend:?}").contains("hunter2"));
    let lock = take(&backend, "held").await?;
    *now.0.lock().unwrap() = 1;
    changes(PASSWORDS[1])?;
    failures_before_an_extend(&backend, lock).await?;
    take(&backend, "next").await?;
    // The locks that the clean-up has to give back wait for the provider.
    let config = || LockConfig::new("dropped").with_ttl(10 * MINUTE);
    let dropped = try_acquire(&backend, config()).await?.acquired().context("a free key")?;
    changes(PASSWORDS[0])?;
    drop(dropped);
    until("a refusal", async || {
        let refused = backend.is_locked(IsLockedRequest::new("dropped").unwrap()).await;
        refused.is_err_and(|error| error.code() == ErrorCode::AuthFailed)
    })
    .await;
    *now.0.lock().unwrap() = 0;
    until("a release", async || {
        try_acquire(&backend, config()).await.is_ok_and(|outcome| outcome.acquired().is_some())
    })
    .await;
    *now.0.lock().unwrap() = 1;
    changes(PASSWORDS[1])?;
    // A provider that fails says itself what kind of failure it is.
    *now.0.lock().unwrap() = 2;
    let connects = async || -> Result<DynBackend, LockError> {
        let backend = connect_with_credentials(url, now.provider()).await?;
        let _ = backend.acquire(AcquireRequest::new("k", MINUTE)?).await?;
        Ok(backend)
    };
    let error = connects().await.expect_err("no credentials");
    ensure!(error.code() == ErrorCode::RateLimited, "{error:?}");
    ensure!(error.message() == "the vault is busy", "{error:?}");
    Ok(())
}

/// The user of all of these servers, which the URL leads to.
async fn redis_outlives(url: &str, servers: &[RedisServer]) -> Result<()> {
    let set = |password: &str| -> Result<()> {
        let password = format!(">{password}");
        let user = ["ACL", "SETUSER", "app", "on", "resetpass", &password, "~*", "&*", "+@all"];
        servers.iter().try_for_each(|server| server.cli(&user).map(drop))
    };
    set(PASSWORDS[0])?;
    outlives(url, |password| {
        set(password)?;
        let cut = ["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"];
        servers.iter().try_for_each(|server| server.cli(&cut).map(drop))
    })
    .await
}

#[tokio::test]
async fn redis_logs_in_with_the_password_of_the_moment() -> Result<()> {
    let server = RedisServer::start()?;
    redis_outlives(&server.url(), &[server]).await
}

/// The Sentinel knows neither the user nor the password.
#[tokio::test]
async fn redis_behind_a_sentinel_logs_in_with_the_password_of_the_moment() -> Result<()> {
    let server = RedisServer::start()?;
    let sentinel = Sentinel::start(&server, 1)?;
    redis_outlives(&sentinel.url(), &[server]).await
}

/// The driver opens the connections to the nodes by itself.
#[tokio::test]
async fn a_cluster_of_redis_logs_in_with_the_password_of_the_moment() -> Result<()> {
    let cluster = RedisCluster::start(3)?;
    redis_outlives(&cluster.url(), cluster.nodes()).await
}

#[tokio::test]
async fn postgres_logs_in_with_the_password_of_the_moment() -> Result<()> {
    let server = PostgresServer::builder().authentication(Authentication::Scram).start()?;
    server.psql(&format!("CREATE ROLE app LOGIN PASSWORD '{}'", PASSWORDS[0]))?;
    server.psql("GRANT CREATE ON SCHEMA public TO app")?;
    let url = format!("postgres://127.0.0.1:{}/postgres?setup_schema=true", server.port());
    outlives(&url, |password| {
        server.psql(&format!("ALTER ROLE app PASSWORD '{password}'"))?;
        let ends = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'";
        server.psql(ends).map(drop)
    })
    .await
}

#[tokio::test]
async fn etcd_logs_in_with_the_password_of_the_moment() -> Result<()> {
    let server = EtcdCluster::start(1)?;
    server.enable_users("root-of-etcd")?;
    let user = |password: &str| format!(r#"{{"name":"app","password":"{password}"}}"#);
    server.post_as_root("auth/user/add", &user(PASSWORDS[0]))?;
    server.post_as_root("auth/user/grant", r#"{"user":"app","role":"root"}"#)?;
    outlives(&server.url(), |password| {
        server.post_as_root("auth/user/changepw", &user(password)).map(drop)
    })
    .await
}
