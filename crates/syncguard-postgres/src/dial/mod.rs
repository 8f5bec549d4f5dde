//! Opens a connection to the first server that answers and accepts writes.
//!
//! A server that takes the first packet and never answers must not keep callers from the other servers of a list, or
//! from the other addresses of a name. So each address gets a head start of a fraction of the limit, and the first that
//! has logged in wins.

mod addresses;
mod dialer;
mod refusal;
#[cfg(test)]
mod tests;

use std::io;
use std::time::Duration;

use syncguard_core::Jitter;
use syncguard_core::{CredentialsProvider, LockError};
use tokio::net::lookup_host;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_postgres::config::{LoadBalanceHosts, TargetSessionAttrs};
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{Client, Config, Connection, Error, Socket};

use self::addresses::{LookUp, addresses, hosts};
pub(crate) use self::dialer::Dialer;
use crate::error::{self, Phase};

/// The limit for an address, if the configuration has none.
pub(crate) const DEFAULT_LIMIT: Duration = Duration::from_secs(5);

/// The longest head start of an address.
const LONGEST_HEAD_START: Duration = Duration::from_millis(500);

/// A TLS connector, or `NoTls`.
pub(crate) trait Tls:
    MakeTlsConnect<Socket, Stream: Send, TlsConnect: TlsConnect<Socket, Future: Send> + Send>
    + Clone
    + Send
    + Sync
    + 'static
{
}

impl<T> Tls for T where
    T: MakeTlsConnect<Socket, Stream: Send, TlsConnect: TlsConnect<Socket, Future: Send> + Send>
        + Clone
        + Send
        + Sync
        + 'static
{
}

/// A client, and the connection that serves it while it is polled.
pub(crate) type Opened<T> = (Client, Connection<Socket, <T as MakeTlsConnect<Socket>>::Stream>);

/// Why no address led to a connection.
#[derive(Debug)]
pub(crate) enum DialError {
    /// An address has failed so; others may have been silent.
    Driver(Error),
    /// No address has answered in time.
    Silence,
    /// The program gave no credentials, and no address was tried.
    NoCredentials(LockError),
}

impl DialError {
    /// The words of a server tell more than a broken connection, which tells more than silence.
    fn rank(&self) -> u8 {
        match self {
            Self::Driver(error) if error.as_db_error().is_some() || self.is_read_only() => 2,
            Self::Driver(_) => 1,
            Self::Silence | Self::NoCredentials(_) => 0,
        }
    }

    /// True if the server accepts no writes: the driver has this kind of error for it.
    fn is_read_only(&self) -> bool {
        let Self::Driver(error) = self else { return false };
        error::io_cause(error).is_some_and(|io| io.kind() == io::ErrorKind::PermissionDenied)
    }
}

impl From<DialError> for LockError {
    fn from(error: DialError) -> Self {
        match error {
            DialError::Driver(error) => error::classify(&error, Phase::Before).error,
            DialError::Silence => error::connect_timed_out(),
            DialError::NoCredentials(error) => error,
        }
    }
}

/// Opens a connection. Each address has the connect timeout of the configuration for all of its answers, and so has the
/// provider of the credentials before.
pub(crate) async fn open<T: Tls>(
    config: &Config,
    tls: &T,
    provider: Option<&CredentialsProvider>,
) -> Result<Opened<T>, DialError> {
    let mut config = config.clone();
    if let Some(provider) = provider {
        let limit = config.get_connect_timeout().copied().unwrap_or(DEFAULT_LIMIT);
        let provided = provider.provide(limit).await.map_err(DialError::NoCredentials)?;
        let (user, password) = provided.expose();
        config.password(password);
        if let Some(user) = user {
            config.user(user);
        }
    }
    open_with(&config, tls, &|name, port| {
        Box::pin(async move { Ok(lookup_host((name, port)).await?.collect()) })
    })
    .await
}

async fn open_with<T: Tls>(
    config: &Config,
    tls: &T,
    look_up: &LookUp,
) -> Result<Opened<T>, DialError> {
    let limit = config.get_connect_timeout().copied();
    let limit = limit.unwrap_or(DEFAULT_LIMIT);
    let mut addresses = addresses(config, limit, look_up).await;
    if config.get_load_balance_hosts() == LoadBalanceHosts::Random {
        addresses.sort_by_cached_key(|_| Jitter::Full.of(Duration::from_secs(1)));
    }
    let is_open_to_all = config.get_target_session_attrs() == TargetSessionAttrs::Any;
    if addresses.len() == 1 || !is_open_to_all {
        return race(addresses, tls, limit).await;
    }
    let primaries = addresses.iter().cloned().map(|mut address| {
        address.target_session_attrs(TargetSessionAttrs::ReadWrite);
        address
    });
    match race(primaries.collect(), tls, limit).await {
        // The servers behind one name may all be standbys, which can be read.
        Err(error) if error.is_read_only() && hosts(config) == 1 => {
            race(addresses, tls, limit).await
        }
        end => end,
    }
}

/// Tries addresses, one more after each head start and each failure.
async fn race<T: Tls>(
    addresses: Vec<Config>,
    tls: &T,
    limit: Duration,
) -> Result<Opened<T>, DialError> {
    let count = u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
    let head_start = (limit / 2 / count).min(LONGEST_HEAD_START);
    let mut addresses = addresses.into_iter();
    let (mut attempts, mut failed) = (JoinSet::new(), DialError::Silence);
    loop {
        let is_last = match addresses.next() {
            Some(address) => {
                let tls = tls.clone();
                attempts.spawn(async move { timeout(limit, address.connect(tls)).await });
                addresses.len() == 0
            }
            None => true,
        };
        let attempt = if is_last {
            attempts.join_next().await
        } else {
            let Ok(attempt) = timeout(head_start, attempts.join_next()).await else { continue };
            attempt
        };
        let failure = match attempt {
            None => return Err(failed),
            Some(Ok(Ok(Ok(opened)))) => return Ok(opened),
            Some(Ok(Ok(Err(error)))) => DialError::Driver(error),
            Some(Ok(Err(_)) | Err(_)) => DialError::Silence,
        };
        if failure.rank() >= failed.rank() {
            failed = failure;
        }
    }
}
