//! Makes the pool of `connect`.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Pool, RecyclingMethod, Runtime, Timeouts,
};
use syncguard_core::LockError;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Config, NoTls};

use crate::cancel_request::CancelRequests;
use crate::config::PostgresOptions;
use crate::dial::{Dialer, Tls};
use crate::settings::{Sessions, Settings};
use crate::signals::route::Route;
use crate::statements::render;

/// Makes a pool, which opens no connection yet, and notes in the settings how it connects.
pub(crate) fn make_pool(
    mut config: Config,
    options: &PostgresOptions,
    settings: &mut Settings,
    connectors: impl FnOnce(Config, &PostgresOptions) -> Result<Connectors, LockError>,
) -> Result<Pool, LockError> {
    set_defaults(&mut config, options, settings);
    let connect = config.get_connect_timeout().copied().unwrap_or(options.connect_timeout);
    // The head starts take half of one limit, and a provider of credentials has one.
    let create = connect.saturating_mul(if options.credentials.is_some() { 3 } else { 2 });
    let timeouts = Timeouts {
        // The backend bounds the wait for a connection itself.
        wait: None,
        create: Some(create),
        recycle: Some(connect),
    };
    let Connectors { manager, cancel, signals } = connectors(config, options)?;
    if options.cancel.is_none() && !settings.unprepared {
        settings.cancel = Some(cancel);
    }
    if settings.signals.route.is_none() {
        // A pool without prepared statements leads to a pooler.
        settings.signals.route = Some(signals).filter(|_| !settings.unprepared);
        settings.connect = create;
    }
    let mut pool = Pool::builder(manager)
        .max_size(options.pool_size)
        .timeouts(timeouts)
        .runtime(Runtime::Tokio1);
    // Behind a transaction pooler, other clients use the same session.
    if !settings.unprepared {
        settings.sessions = Sessions::SetUp;
        let session: Arc<str> = render(include_str!("sql/session.sql"), settings).into();
        pool = pool.post_create(Hook::async_fn(move |client, _| {
            let session = Arc::clone(&session);
            Box::pin(
                async move { client.batch_execute(&session).await.map_err(HookError::Backend) },
            )
        }));
    }
    let pool = pool.build();
    pool.map_err(|error| LockError::internal("no pool could be made").with_source(&error))
}

fn set_defaults(config: &mut Config, options: &PostgresOptions, settings: &Settings) {
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
        // Operators see the holder in `pg_stat_activity` as well. The server cuts the name after 63 bytes.
        let name = format!("syncguard {}", settings.client_state.holder().label());
        config.application_name(name.trim_end());
    }
}

/// The means to reach the servers of a pool.
pub(crate) struct Connectors {
    pub(crate) manager: Manager,
    pub(crate) cancel: CancelRequests,
    pub(crate) signals: Route,
}

#[cfg(feature = "tls")]
pub(crate) fn connectors(
    config: Config,
    options: &PostgresOptions,
) -> Result<Connectors, LockError> {
    if config.get_ssl_mode() == SslMode::Disable {
        return Ok(connectors_over(config, options, NoTls));
    }
    Ok(connectors_over(config, options, crate::tls::Rustls::new(&options.tls)?))
}

#[cfg(not(feature = "tls"))]
pub(crate) fn connectors(
    config: Config,
    options: &PostgresOptions,
) -> Result<Connectors, LockError> {
    if config.get_ssl_mode() == SslMode::Require {
        return Err(LockError::invalid_argument(
            "sslmode=require needs the feature `tls` of syncguard-postgres or syncguard, or a pool of your own",
        ));
    }
    Ok(connectors_over(config, options, NoTls))
}

fn connectors_over(config: Config, options: &PostgresOptions, tls: impl Tls) -> Connectors {
    let credentials = options.credentials.clone();
    Connectors {
        cancel: CancelRequests::new(tls.clone()),
        signals: Route::new(config.clone(), tls.clone(), credentials.clone()),
        manager: Manager::from_connect(config, Dialer::new(tls, credentials), manager_config()),
    }
}

pub(crate) fn manager_config() -> ManagerConfig {
    // A query on reuse would be a second round trip, and an interrupted connection comes back to the pool only
    // after it has answered.
    ManagerConfig { recycling_method: RecyclingMethod::Fast }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_gives_up_a_silent_server_in_time_unless_the_url_says_when() {
        let given = "postgres://h?tcp_user_timeout=7&keepalives_idle=9";
        for (url, user, idle) in [("postgres://h", 10, 30), (given, 7, 9)] {
            let (mut config, options): (Config, _) = (url.parse().unwrap(), PostgresOptions::new());
            set_defaults(&mut config, &options, &Settings::new(options.clone()).unwrap());
            assert_eq!(config.get_tcp_user_timeout(), Some(&Duration::from_secs(user)));
            assert_eq!(config.get_keepalives_idle(), Duration::from_secs(idle));
        }
    }
}
