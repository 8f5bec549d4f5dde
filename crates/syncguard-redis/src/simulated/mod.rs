//! For tests: a backend whose commands go to a simulated server instead of fred.

pub(crate) mod wire;

use std::sync::Arc;

use fred::clients::Client;
use fred::types::config::Config;
use syncguard_core::LockError;

pub use self::wire::{Answering, Listening, Opening, Wire};
use crate::backend::RedisBackend;
use crate::config::RedisOptions;

/// A backend over a wire, which is not open yet. `config` says whether the server is a cluster, which may get a command
/// twice.
///
/// # Errors
///
/// As [`RedisBackend::from_client`].
pub fn over(
    config: Config,
    wire: Arc<dyn Wire>,
    options: RedisOptions,
) -> Result<RedisBackend, LockError> {
    // Never connected. Without a reconnect policy, nothing asks it for slots.
    RedisBackend::over_wire(&Client::new(config, None, None, None), wire, options)
}
