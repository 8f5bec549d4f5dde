//! Starts PostgreSQL with each option, uses it and breaks it.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::Result;
use syncguard_test_services::postgres::{Authentication, PgBouncer, PoolMode, PostgresServer};

#[test]
fn answers_and_recovers_from_a_crash() -> Result<()> {
    let mut postgres = PostgresServer::start()?;
    let (port, pid) = (postgres.port(), postgres.pid()?);
    assert_eq!(postgres.psql("SELECT 1, 2")?, "1|2");
    postgres.psql("CREATE TABLE kept (x int); INSERT INTO kept VALUES (7)")?;

    postgres.kill()?;
    assert!(postgres.psql("SELECT 1").is_err());
    postgres.restart()?;
    assert_eq!(postgres.port(), port);
    assert_ne!(postgres.pid()?, pid);
    assert_eq!(postgres.psql("SELECT x FROM kept")?, "7");

    postgres.restart()?;
    assert_eq!(postgres.psql("SELECT x FROM kept")?, "7");
    let refused = postgres.psql("SELEC").unwrap_err().to_string();
    assert!(refused.contains("syntax error"), "{refused}");
    Ok(())
}

#[test]
fn a_paused_server_goes_on_where_it_was() -> Result<()> {
    let mut postgres = PostgresServer::start()?;
    postgres.pause()?;
    let stopped = std::fs::read_to_string(format!("/proc/{}/stat", postgres.pid()?));
    if let Ok(stat) = stopped {
        assert!(stat.contains(") T "), "{stat}");
    }
    postgres.resume()?;
    assert_eq!(postgres.psql("SELECT 1")?, "1");
    Ok(())
}

#[test]
fn an_open_session_of_a_paused_server_answers_late() -> Result<()> {
    let mut postgres = PostgresServer::start()?;
    let mut session = TcpStream::connect(("127.0.0.1", postgres.port()))?;
    session.write_all(b"\0\0\0\x17\0\x03\0\0user\0postgres\0\0")?;
    // Its process is a child of the server, in a group of its own. It reports when it is ready.
    let mut answer = Vec::new();
    while !answer.ends_with(b"Z\0\0\0\x05I") {
        let mut byte = [0];
        session.read_exact(&mut byte)?;
        answer.extend(byte);
    }

    postgres.pause()?;
    session.write_all(b"Q\0\0\0\x0dSELECT 1\0")?;
    session.set_read_timeout(Some(Duration::from_millis(300)))?;
    let silence = session.read(&mut [0]).unwrap_err();
    assert_eq!(silence.kind(), ErrorKind::WouldBlock);

    postgres.resume()?;
    session.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut kind = [0];
    session.read_exact(&mut kind)?;
    assert_eq!(&kind, b"T");
    Ok(())
}

#[test]
fn options_reach_the_server() -> Result<()> {
    let postgres = PostgresServer::builder()
        .authentication(Authentication::Scram)
        .config("max_connections = 7")
        .start()?;
    assert_eq!(postgres.psql("SHOW max_connections")?, "7");
    let method = "SELECT DISTINCT auth_method FROM pg_hba_file_rules";
    assert_eq!(postgres.psql(method)?, "scram-sha-256");
    Ok(())
}

#[test]
fn a_pooler_hands_out_connections_by_transaction() -> Result<()> {
    for authentication in [Authentication::Trust, Authentication::Scram] {
        let postgres = PostgresServer::builder().authentication(authentication).start()?;
        let mut pooler = PgBouncer::start(&postgres, PoolMode::Transaction)?;
        assert_eq!(pooler.psql("SELECT 1")?, "1");
        assert!(pooler.admin("SHOW POOLS")?.contains("|transaction"));

        pooler.kill()?;
        assert!(pooler.psql("SELECT 1").is_err());
        pooler.restart()?;
        assert_eq!(pooler.psql("SELECT 2")?, "2");
    }
    Ok(())
}
