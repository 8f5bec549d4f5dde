//! For tests: a backend whose connections are streams in memory, to a simulated server.

pub(crate) mod streams;

use syncguard_core::LockError;
use tokio_postgres::Config;
use tokio_postgres::config::SslMode;

pub use self::streams::Stream;
use self::streams::Streams;
use crate::backend::PostgresBackend;
use crate::config::PostgresOptions;

/// A backend with a pool of such connections. It sends nothing yet.
///
/// # Errors
///
/// As [`PostgresBackend::connect_with`].
pub fn over(
    options: &PostgresOptions,
    open: impl Fn() -> Box<dyn Stream> + Send + Sync + 'static,
) -> Result<PostgresBackend, LockError> {
    let mut config = Config::new();
    config.user("simulated").ssl_mode(SslMode::Disable);
    let backend = PostgresBackend::connect_later(config, options, |config, _| {
        Ok(Streams::new(open).connectors(config))
    })?;
    // The simulated server has no catalogs to check.
    let _ = backend.inner().checked.set(());
    Ok(backend)
}

/// For fuzz targets: reads a URL as `connect` does, and connects to nothing.
///
/// # Errors
///
/// `InvalidArgument` for a URL that `connect` refuses.
pub fn read_url(url: &str) -> Result<(), LockError> {
    crate::url::parse(url, PostgresOptions::new()).map(drop)
}
