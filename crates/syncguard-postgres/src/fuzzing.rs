//! Readers of text, for the fuzz targets of this repository.

use syncguard_core::LockError;

use crate::config::PostgresOptions;
use crate::url;

/// Reads a URL as `connect` does, and connects to nothing.
///
/// # Errors
///
/// `InvalidArgument` for a URL that `connect` refuses.
pub fn read_url(url: &str) -> Result<(), LockError> {
    url::parse(url, PostgresOptions::new()).map(drop)
}
