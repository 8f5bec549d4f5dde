//! Encrypted connections of the pools that `connect` makes.

use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};
use syncguard_postgres::{ErrorCode, LockError, PostgresBackend, PostgresOptions};
use syncguard_test_services::postgres::PostgresServer;

use crate::postgres::support::{release, take};

/// A server with its own certificate for `localhost`, and the certificate in DER and as text.
pub(crate) fn server() -> Result<(PostgresServer, Vec<u8>, String)> {
    let server = PostgresServer::start()?;
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    put(&server, "server.crt", &made.cert.pem())?;
    put(&server, "server.key", &made.signing_key.serialize_pem())?;
    server.psql("ALTER SYSTEM SET ssl = on")?;
    server.psql("SELECT pg_reload_conf()")?;
    Ok((server, made.cert.der().to_vec(), made.cert.pem()))
}

/// Writes a file into the server's folder. The server itself writes it, so that it owns its key.
pub(crate) fn put(server: &PostgresServer, file: &str, text: &str) -> Result<()> {
    let hex = text.bytes().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
    server.psql(&format!(
        "COPY (SELECT encode('\\x{hex}'::bytea, 'base64')) TO PROGRAM
         'sed \"s/\\\\\\\\n/\\n/g\" | base64 -d > {file} && chmod 600 {file}'"
    ))?;
    Ok(())
}

async fn connect(url: &str, root: Option<&[u8]>) -> Result<PostgresBackend, LockError> {
    let mut options = PostgresOptions::new().with_pool_size(2);
    if let Some(root) = root {
        options = options.with_root_certificate(root);
    }
    PostgresBackend::connect_with(url, options).await
}

async fn is_encrypted(backend: &PostgresBackend) -> Result<bool> {
    let sql = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    Ok(backend.pool().get().await?.query_one(sql, &[]).await?.get(0))
}

#[tokio::test]
async fn certificates_are_verified() -> Result<()> {
    let (server, root, text) = server()?;
    let url = server.url().replace("127.0.0.1", "localhost");

    // Preferred by default, and required.
    for mode in ["", "?sslmode=prefer", "?sslmode=require"] {
        let backend = connect(&format!("{url}{mode}"), Some(&root)).await?;
        ensure!(is_encrypted(&backend).await?, "{mode}");
        backend.setup_schema().await?;
        let lock = take(&backend, "key").await;
        release(&backend, lock.lock_id).await?;
    }
    let plain = connect(&format!("{url}?sslmode=disable"), Some(&root)).await?;
    ensure!(!is_encrypted(&plain).await?);

    // The same settings in the URL.
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("postgres-tls-root.pem");
    fs::write(&file, text)?;
    let verified = format!("{url}?sslmode=verify-full&sslrootcert={}", file.display());
    ensure!(is_encrypted(&PostgresBackend::connect(&verified).await?).await?);

    // A certificate of an unknown issuer; a certificate for another name.
    let strangers = connect(&url, None).await.unwrap_err();
    assert_eq!(strangers.code(), ErrorCode::AuthFailed, "{strangers}");
    let elsewhere = connect(&server.url(), Some(&root)).await.unwrap_err();
    assert_eq!(elsewhere.code(), ErrorCode::AuthFailed, "{elsewhere}");
    let garbage = connect(&url, Some(b"garbage")).await.unwrap_err();
    assert_eq!(garbage.code(), ErrorCode::InvalidArgument, "{garbage}");
    Ok(())
}

#[tokio::test]
async fn a_server_without_tls_is_refused_where_it_is_required() -> Result<()> {
    let url = format!("{}?sslmode=require", crate::postgres::support::shared().url());
    let error = connect(&url, None).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error}");
    assert!(error.message().contains("offers no TLS"), "{error}");
    connect(&crate::postgres::support::shared().url(), None).await?;
    Ok(())
}
