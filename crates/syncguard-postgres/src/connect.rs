//! A pool of the library's own.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Pool, RecyclingMethod, Runtime, Timeouts,
};
use syncguard_core::{LockError, checked_timeout};
use tokio_postgres::Config;
use tokio_postgres::config::{SslMode, TargetSessionAttrs};

use crate::cancel_request::CancelRequests;
use crate::config::PostgresOptions;
use crate::statements::render;

/// The pool that [`connect_with`](crate::PostgresBackend::connect_with) makes.
#[derive(Clone, Debug)]
#[must_use]
pub struct PoolOptions {
    size: usize,
    connect: Duration,
    /// In DER; Mozilla's if there are none.
    root_certificates: Vec<Vec<u8>>,
}

impl PoolOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self { size: 10, connect: Duration::from_secs(5), root_certificates: Vec::new() }
    }

    /// The most connections that are open at a time. Default: 10. With one, contenders and holders
    /// share it.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for zero.
    pub fn with_size(mut self, size: usize) -> Result<Self, LockError> {
        if size == 0 {
            return Err(LockError::invalid_argument(
                "a pool of no connections; 1 or more is allowed",
            ));
        }
        self.size = size;
        Ok(self)
    }

    /// The longest the opening of a connection may take, unless the URL has a `connect_timeout`.
    /// Default: 5 s.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` below one millisecond or above 100 years.
    pub fn with_connect_timeout(mut self, timeout: Duration) -> Result<Self, LockError> {
        self.connect = checked_timeout("connect timeout", timeout)?;
        Ok(self)
    }

    /// Trusts this authority's certificate (DER), and others given the same way, instead of
    /// Mozilla's.
    #[cfg(feature = "tls")]
    pub fn with_root_certificate(mut self, der: impl Into<Vec<u8>>) -> Self {
        self.root_certificates.push(der.into());
        self
    }

    #[cfg(feature = "tls")]
    pub(crate) fn with_root_certificates(mut self, der: Vec<Vec<u8>>) -> Self {
        self.root_certificates = der;
        self
    }
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// A pool, which opens no connection yet, and what cancels statements in its sessions.
pub(crate) fn make_pool(
    mut config: Config,
    options: &PoolOptions,
    backend: &PostgresOptions,
) -> Result<(Pool, CancelRequests), LockError> {
    set_defaults(&mut config, options);
    let connect = config.get_connect_timeout().copied().unwrap_or(options.connect);
    let hosts = config.get_hosts().len().max(config.get_hostaddrs().len()).max(1);
    let hosts = u32::try_from(hosts).unwrap_or(u32::MAX);
    let timeouts = Timeouts {
        // The backend bounds the wait for a connection itself.
        wait: None,
        // The driver's own timeout ends with the TCP handshake; TLS and the log-in come on top.
        create: Some(connect.saturating_mul(2).saturating_mul(hosts)),
        recycle: Some(connect),
    };
    let (manager, cancel) = manager(config, options)?;
    let mut pool =
        Pool::builder(manager).max_size(options.size).timeouts(timeouts).runtime(Runtime::Tokio1);
    // Behind a transaction pooler the session belongs to others too.
    if !backend.unprepared {
        let settings: Arc<str> = render(include_str!("sql/session.sql"), backend).into();
        pool = pool.post_create(Hook::async_fn(move |client, _| {
            let settings = Arc::clone(&settings);
            Box::pin(
                async move { client.batch_execute(&settings).await.map_err(HookError::Backend) },
            )
        }));
    }
    let pool = pool.build();
    let pool =
        pool.map_err(|error| LockError::internal("no pool could be made").with_source(&error))?;
    Ok((pool, cancel))
}

fn set_defaults(config: &mut Config, options: &PoolOptions) {
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(options.connect);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(Duration::from_secs(10));
    }
    if config.get_keepalives() && config.get_keepalives_idle() == Duration::from_secs(2 * 60 * 60) {
        config.keepalives_idle(Duration::from_secs(30));
    }
    if config.get_application_name().is_none() {
        config.application_name("syncguard");
    }
    if config.get_hosts().len() > 1 && config.get_target_session_attrs() == TargetSessionAttrs::Any
    {
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    }
}

#[cfg(feature = "tls")]
fn manager(config: Config, options: &PoolOptions) -> Result<(Manager, CancelRequests), LockError> {
    if config.get_ssl_mode() == SslMode::Disable {
        return Ok(plain_manager(config));
    }
    let tls = crate::tls::Rustls::new(&options.root_certificates)?;
    let cancel = CancelRequests::to(&config, tls.clone());
    Ok((Manager::from_config(config, tls, manager_config()), cancel))
}

#[cfg(not(feature = "tls"))]
fn manager(config: Config, options: &PoolOptions) -> Result<(Manager, CancelRequests), LockError> {
    debug_assert!(options.root_certificates.is_empty());
    if config.get_ssl_mode() == SslMode::Require {
        return Err(LockError::invalid_argument(
            "sslmode=require needs the feature `tls` of syncguard-postgres or syncguard, or a pool of your own",
        ));
    }
    Ok(plain_manager(config))
}

fn plain_manager(config: Config) -> (Manager, CancelRequests) {
    let cancel = CancelRequests::to(&config, tokio_postgres::NoTls);
    (Manager::from_config(config, tokio_postgres::NoTls, manager_config()), cancel)
}

fn manager_config() -> ManagerConfig {
    // No query on reuse: it would be a second round trip, and interrupted connections come back once they
    // have answered.
    ManagerConfig { recycling_method: RecyclingMethod::Fast }
}
