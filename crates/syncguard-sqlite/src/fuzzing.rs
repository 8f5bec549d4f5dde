//! Gives the fuzz targets of this repository access to the parser of URLs.

use syncguard_core::LockError;

use crate::config::SqliteOptions;
use crate::url;

/// Reads a URL like `connect`, but does not connect.
///
/// # Errors
///
/// `InvalidArgument` for a URL that `connect` refuses.
pub fn read_url(url: &str) -> Result<(), LockError> {
    url::parse(url, SqliteOptions::new()).map(drop)
}
