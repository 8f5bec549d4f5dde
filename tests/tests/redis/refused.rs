//! The server, or what is in its place, refuses the connection in the place of a lost one.

use anyhow::Result;
use syncguard_redis::{ErrorCode, LockError, RedisBackend};
use syncguard_test_services::proxy::FaultProxy;
use syncguard_test_services::redis::RedisServer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::tools::{acquire, over_client, patient, release, until_ok, url};
use crate::support::warnings::Warnings;

const PASSWORD: &str = "s3cret-passw0rd";

/// Cuts the connection after `cause`, and returns the error of the next call. `mend` undoes the cause, and then calls
/// work again.
async fn after(
    server: &RedisServer,
    url: &str,
    cause: &[&str],
    mend: &[&str],
) -> Result<LockError> {
    let backend = patient(url).await;
    let _lock = acquire(&backend, &format!("warm{cause:?}")).await?;
    server.cli(cause)?;
    let warnings = Warnings::new();
    let here = tracing::subscriber::set_default(warnings.clone());
    // The driver may notice the loss a moment later; such a call fails with it, or waits for its end.
    server.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"])?;
    let error = loop {
        let error = acquire(&backend, &format!("next{cause:?}")).await.unwrap_err();
        if !error.is_outcome_unknown() {
            break error;
        }
    };
    let logged = warnings.count();
    for _ in 0..3 {
        let again = acquire(&backend, "again").await.unwrap_err();
        assert_eq!((again.code(), again.message()), (error.code(), error.message()));
    }
    // The release of the lock that the lost call may have got fails, too, which has a line of its own.
    assert!((1..=2).contains(&logged) && warnings.count() <= 2, "{logged}");
    drop(here);
    assert!(!format!("{error:?}").contains(PASSWORD));
    server.cli(mend)?;
    let _ = until_ok(|| acquire(&backend, "again")).await;
    server.cli(&["DEL", "syncguard:again"])?;
    Ok(error)
}

#[tokio::test]
async fn a_refused_reconnection_says_why() -> Result<()> {
    let server = RedisServer::start()?;
    server.cli(&["ACL", "SETUSER", "app", "on", &format!(">{PASSWORD}"), "~*", "+@all"])?;
    let app = format!("redis://app:{PASSWORD}@127.0.0.1:{}", server.port());
    let password = format!(">{PASSWORD}");
    let mend = ["ACL", "SETUSER", "app", "on", &password, "~*", "+@all"];
    for cause in [
        &["ACL", "SETUSER", "app", "resetpass", ">other"][..],
        &["ACL", "SETUSER", "app", "off"],
        &["ACL", "DELUSER", "app"],
    ] {
        let error = after(&server, &app, cause, &mend).await?;
        assert_eq!(error.code(), ErrorCode::AuthFailed, "{cause:?}: {error:?}");
        assert!(error.message().contains("password"), "{cause:?}: {error:?}");
    }
    Ok(())
}

/// The name leads to another server than at the beginning; also over a client of the program.
#[tokio::test]
async fn another_server_behind_the_name_says_what_is_wrong() -> Result<()> {
    let first = RedisServer::start()?;
    let with_password = RedisServer::builder().password(PASSWORD).start()?;
    let few = RedisServer::builder().config("databases 1").start()?;
    let full = RedisServer::start()?;
    full.cli(&["CONFIG", "SET", "maxclients", "1"])?;
    let mut only = TcpStream::connect(("127.0.0.1", full.port())).await?;
    only.write_all(b"PING\r\n").await?;
    only.read_exact(&mut [0; 7]).await?;
    for (second, database, code, says) in [
        (&with_password, "", ErrorCode::AuthFailed, "wants a password"),
        (&few, "/1", ErrorCode::InvalidArgument, "no database of this number"),
        (&full, "", ErrorCode::RateLimited, "no connection left"),
    ] {
        for is_ours in [true, false] {
            let name = FaultProxy::start(first.port())?;
            let url = format!("{}{database}", url(name.port()));
            let backend = if is_ours { patient(&url).await } else { over_client(&url).await?.1 };
            let lock = acquire(&backend, "k").await?;
            assert!(release(&backend, &lock).await?);
            name.lead_to(second.port());
            name.sever();
            // Calls may fail with the loss, or before the first try.
            let (error, _) = until_ok(async || match acquire(&backend, "k").await {
                Err(error) if error.code() == code => Ok(error),
                Err(error) => Err(error),
                Ok(_) => Err(LockError::internal("the old server is still there")),
            })
            .await;
            assert!(error.message().contains(says) && !error.is_outcome_unknown(), "{error:?}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_host_without_an_address_is_named_as_the_mistake() -> Result<()> {
    for url in ["redis://no-such-host.invalid", "redis-cluster://no-such-host.invalid"] {
        let error = RedisBackend::connect(url).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::ServiceUnavailable);
        assert!(error.message().contains("no address is known for the host name"), "{error:?}");
    }
    Ok(())
}
