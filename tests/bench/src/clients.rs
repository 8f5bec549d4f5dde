//! The drivers without the library.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};

use anyhow::Result;
use fred::interfaces::ClientLike as _;
use fred::types::config::{Config as RedisConfig, ConnectionConfig, TcpConfig};
use syncguard_postgres::tokio_postgres::{self, NoTls};
use syncguard_test_services::postgres::PostgresServer;

pub async fn redis(url: &str) -> Result<fred::clients::Client> {
    let config = RedisConfig::from_url(url)?;
    let client = fred::clients::Client::new(config, None, Some(redis_connection()), None);
    client.init().await?;
    Ok(client)
}

/// The settings of the backend's connections.
#[must_use]
pub fn redis_connection() -> ConnectionConfig {
    let tcp = TcpConfig { nodelay: Some(true), ..TcpConfig::default() };
    ConnectionConfig { tcp, ..ConnectionConfig::default() }
}

pub async fn postgres(port: u16) -> Result<tokio_postgres::Client> {
    let (client, connection) = postgres_config(port).connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// The address of a server of the tests.
#[must_use]
pub fn postgres_config(port: u16) -> tokio_postgres::Config {
    let mut config = tokio_postgres::Config::new();
    config.host("127.0.0.1").port(port).user("postgres").dbname("postgres");
    config.password(PostgresServer::PASSWORD);
    config
}

/// The sum of the lines of etcd's metrics that begin so.
pub fn etcd_metric(port: u16, begins: &str) -> Result<f64> {
    let (mut stream, mut text) = (TcpStream::connect((Ipv4Addr::LOCALHOST, port))?, String::new());
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
    stream.read_to_string(&mut text)?;
    let values = text.lines().filter(|line| line.starts_with(begins));
    Ok(values.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum())
}
