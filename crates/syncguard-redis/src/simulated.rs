//! For tests: a backend whose commands go to a simulated server instead of fred.

use std::sync::Arc;

use syncguard_core::LockError;

use crate::backend::RedisBackend;
use crate::config::RedisOptions;
pub use crate::driver::{Answering, Command, Target};
use crate::layout::Layout;
pub use crate::service::{Listening, Opening, Servers, Service, Traits};

/// A backend over a connection, which need not be open yet, to these servers.
///
/// # Errors
///
/// As [`RedisBackend::from_client`].
pub fn over(
    servers: Arc<dyn Servers>,
    first: Box<dyn Service>,
    options: RedisOptions,
) -> Result<RedisBackend, LockError> {
    options.check()?;
    let layout = Layout::new(&options.key_prefix, first.traits().is_clustered)?;
    RedisBackend::over(vec![first], Some(servers), layout, options)
}

/// For fuzz targets: reads a URL as `connect` does, and connects to nothing.
///
/// # Errors
///
/// `InvalidArgument` for a URL that `connect` refuses.
pub fn read_url(url: &str) -> Result<(), LockError> {
    crate::url::parse(url, RedisOptions::new()).map(drop)
}
