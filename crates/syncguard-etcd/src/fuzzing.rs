//! Gives the fuzz targets of this repository access to the parser of URLs.

use syncguard_core::LockError;

/// Reads a URL like `connect`, but does not connect.
pub fn read_url(url: &str) -> Result<(), LockError> {
    crate::url::parse(url, crate::EtcdOptions::new()).map(drop)
}
