use std::net::{Ipv4Addr, SocketAddr};

use deadpool_postgres::Connect as _;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_postgres::NoTls;
use tokio_postgres::config::SslMode;

use super::addresses::{LookingUp, without_hosts};
use super::dialer::orphans;
use super::*;

const WRITES: &[u8] = b"off";
const READS: &[u8] = b"on";

/// Logs clients in as a server does that asks for no password, with the last digit of its address as a parameter,
/// and tells them if it is read-only.
async fn greet(mut client: TcpStream, last: u8, is_read_only: &[u8]) -> io::Result<()> {
    let mut asked = [0; 1024];
    let _ = client.read(&mut asked).await?;
    let mut greeting = b"R\0\0\0\x08\0\0\0\0S\0\0\0\x0blast\0".to_vec();
    greeting.extend([b'0' + last, 0]);
    greeting.extend(b"Z\0\0\0\x05I");
    client.write_all(&greeting).await?;
    while client.read(&mut asked).await? > 0 {
        let length = u8::try_from(is_read_only.len()).unwrap();
        let mut answer =
            b"T\0\0\0\x1a\0\x01x\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\0\0\0\0\0\0D\0\0\0".to_vec();
        answer.push(10 + length);
        answer.extend(b"\0\x01\0\0\0");
        answer.push(length);
        answer.extend(is_read_only);
        answer.extend(b"C\0\0\0\x09SHOW\0Z\0\0\0\x05I");
        client.write_all(&answer).await?;
    }
    Ok(())
}

/// Listens on these addresses of this machine and one port. An address without an answer accepts clients and is
/// silent.
async fn servers<const N: usize>(servers: [(u8, Option<&'static [u8]>); N]) -> u16 {
    let mut port = 0;
    for (last, answer) in servers {
        let at = (Ipv4Addr::new(127, 0, 0, last), port);
        let listener = TcpListener::bind(at).await.unwrap();
        port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            let mut silent = Vec::new();
            while let Ok((client, _)) = listener.accept().await {
                match answer {
                    Some(answer) => drop(tokio::spawn(greet(client, last, answer))),
                    None => silent.push(client),
                }
            }
        });
    }
    port
}

fn config(names: &[&str], port: u16) -> Config {
    let mut config = Config::new();
    config.user("u").port(port).ssl_mode(SslMode::Disable);
    // Longer than a test may take: only head starts pass.
    config.connect_timeout(Duration::from_secs(600));
    for name in names {
        config.host(*name);
    }
    config
}

/// Opens a connection with a name server that knows these addresses of `db`, and returns the last digit of the
/// address that was reached.
async fn reached(config: &Config, addresses: &[u8]) -> Result<String, DialError> {
    let addresses = addresses.to_vec();
    let look_up = move |name: String, port| -> LookingUp {
        let at = |last: &u8| SocketAddr::from((Ipv4Addr::new(127, 0, 0, *last), port));
        match name.as_str() {
            "db" => Box::pin(std::future::ready(Ok(addresses.iter().map(at).collect()))),
            "silent" => Box::pin(std::future::pending()),
            name => {
                let address = name.parse::<Ipv4Addr>().unwrap();
                Box::pin(std::future::ready(Ok(vec![(address, port).into()])))
            }
        }
    };
    let (_client, connection) = open_with(config, &NoTls, &look_up).await?;
    Ok(connection.parameter("last").unwrap_or_default().to_owned())
}

#[tokio::test]
async fn a_silent_address_is_passed_over() {
    let port = servers([(2, None), (3, Some(WRITES)), (4, Some(READS))]).await;
    // An address of a name, and a host of a list; a standby first, or among the others.
    for (names, addresses) in [
        (["db"].as_slice(), [2, 3].as_slice()),
        (&["db"], &[3, 2]),
        (&["db"], &[4, 2, 3]),
        (&["127.0.0.2", "127.0.0.3"], &[]),
        (&["127.0.0.2", "db"], &[2, 4, 3]),
    ] {
        let reached = reached(&config(names, port), addresses).await.unwrap();
        assert_eq!(reached, "3", "{names:?} {addresses:?}");
    }
    let mut random = config(&["db"], port);
    random.load_balance_hosts(LoadBalanceHosts::Random);
    assert_eq!(reached(&random, &[2, 3]).await.unwrap(), "3");
}

#[tokio::test]
async fn a_name_with_standbys_alone_can_be_read() {
    let port = servers([(2, Some(READS)), (3, Some(READS))]).await;
    assert!(reached(&config(&["db"], port), &[2, 3]).await.is_ok());
    let list = config(&["127.0.0.2", "127.0.0.3"], port);
    let error = LockError::from(reached(&list, &[]).await.unwrap_err());
    assert!(error.message().contains("no host accepts writes"), "{error}");
}

#[tokio::test]
async fn a_silent_name_server_is_passed_over() {
    let port = servers([(2, Some(WRITES))]).await;
    let mut list = config(&["silent", "127.0.0.2"], port);
    list.connect_timeout(Duration::from_secs(4));
    assert_eq!(reached(&list, &[]).await.unwrap(), "2");
}

#[tokio::test]
async fn an_attempt_without_its_caller_goes_on_for_the_next() {
    let port = servers([(2, Some(WRITES))]).await;
    let (config, dialer) = (config(&["127.0.0.2"], port), Dialer::new(NoTls, None));
    let mut first = dialer.connect(&config);
    let waker = std::task::Waker::noop();
    let polled = first.as_mut().poll(&mut std::task::Context::from_waker(waker));
    assert!(polled.is_pending());
    drop(first);
    let orphan = |dialer: &Dialer<_>| orphans(&dialer.orphans).first().map(JoinHandle::id);
    let id = orphan(&dialer);
    assert!(id.is_some());
    let mut next = dialer.connect(&config);
    let _ = next.as_mut().poll(&mut std::task::Context::from_waker(waker));
    assert_eq!(orphan(&dialer), None, "the next caller has it");
    let (client, _) = next.await.unwrap();
    assert!(!client.is_closed());
    // A failure from before is no news.
    let error = "no URL".parse::<Config>().unwrap_err();
    for failure in [DialError::Silence, DialError::Driver(error)] {
        let failed = tokio::spawn(async { Err(failure) });
        while !failed.is_finished() {
            tokio::task::yield_now().await;
        }
        orphans(&dialer.orphans).push(failed);
        assert!(dialer.connect(&config).await.is_ok());
    }
}

#[test]
fn nothing_is_lost_in_a_copy() {
    let url = "postgres://u:p@h:1/d?hostaddr=127.0.0.1&application_name=a&channel_binding=require\
               &connect_timeout=3&keepalives=0&keepalives_idle=4&keepalives_interval=5\
               &keepalives_retries=6&load_balance_hosts=random&options=-c%20geqo%3Doff\
               &sslmode=require&sslnegotiation=direct&target_session_attrs=read-write\
               &tcp_user_timeout=7";
    let config: Config = url.parse().unwrap();
    let mut copy = without_hosts(&config);
    copy.host("h").port(1).hostaddr(Ipv4Addr::LOCALHOST.into());
    assert!(copy == config, "{copy:?} is not {config:?}");
}
