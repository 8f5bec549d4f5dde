//! A pool of the library's own.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Pool, RecyclingMethod, Runtime, Timeouts,
};
use syncguard_core::LockError;
use tokio_postgres::Config;
use tokio_postgres::config::{SslMode, TargetSessionAttrs};

use crate::cancel_request::CancelRequests;
use crate::config::PostgresOptions;
use crate::settings::Settings;
use crate::statements::render;

/// A pool, which opens no connection yet, and what cancels statements in its sessions.
pub(crate) fn make_pool(
    mut config: Config,
    options: &PostgresOptions,
    settings: &Settings,
) -> Result<(Pool, CancelRequests), LockError> {
    set_defaults(&mut config, options);
    let connect = config.get_connect_timeout().copied().unwrap_or(options.connect_timeout);
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
    let mut pool = Pool::builder(manager)
        .max_size(options.pool_size)
        .timeouts(timeouts)
        .runtime(Runtime::Tokio1);
    // Behind a transaction pooler the session belongs to others too.
    if !settings.unprepared {
        let session: Arc<str> = render(include_str!("sql/session.sql"), settings).into();
        pool = pool.post_create(Hook::async_fn(move |client, _| {
            let session = Arc::clone(&session);
            Box::pin(
                async move { client.batch_execute(&session).await.map_err(HookError::Backend) },
            )
        }));
    }
    let pool = pool.build();
    let pool =
        pool.map_err(|error| LockError::internal("no pool could be made").with_source(&error))?;
    Ok((pool, cancel))
}

fn set_defaults(config: &mut Config, options: &PostgresOptions) {
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(options.connect_timeout);
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
fn manager(
    config: Config,
    options: &PostgresOptions,
) -> Result<(Manager, CancelRequests), LockError> {
    if config.get_ssl_mode() == SslMode::Disable {
        return Ok(plain_manager(config));
    }
    let tls = crate::tls::Rustls::new(&options.root_certificates)?;
    let cancel = CancelRequests::to(&config, tls.clone());
    Ok((Manager::from_config(config, tls, manager_config()), cancel))
}

#[cfg(not(feature = "tls"))]
fn manager(config: Config, _: &PostgresOptions) -> Result<(Manager, CancelRequests), LockError> {
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
