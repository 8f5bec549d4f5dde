//! The store of those who name none: a file of this user's.

use crate::exit::Failure;

#[cfg(feature = "sqlite")]
pub(super) fn url() -> Result<String, Failure> {
    use std::fs::DirBuilder;
    use std::os::unix::fs::DirBuilderExt as _;

    let folder = folder()?;
    DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(|error| {
        let folder = folder.display();
        Failure::usage(format!(
            "the folder {folder} cannot be made: {error}; name a store with --store"
        ))
    })?;
    let path = folder.join("locks.db");
    let path = path.to_str().ok_or_else(|| {
        Failure::usage("the folder for state of this user is not UTF-8; name a store with --store")
    })?;
    Ok(format!("sqlite://{}", super::url::encoded(path)))
}

#[cfg(not(feature = "sqlite"))]
pub(super) fn url() -> Result<String, Failure> {
    Err(Failure::usage("no store is named: use --store, --store-file or SYNCGUARD_STORE"))
}

/// `$XDG_STATE_HOME/syncguard`, as the base directory specification says.
#[cfg(feature = "sqlite")]
fn folder() -> Result<std::path::PathBuf, Failure> {
    use std::env;
    use std::path::PathBuf;

    let state = env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let state = state.or_else(|| {
        let home = env::home_dir().filter(|home| home.is_absolute())?;
        Some(home.join(".local/state"))
    });
    match state {
        Some(state) => Ok(state.join("syncguard")),
        None => Err(Failure::usage("this user has no home; name a store with --store")),
    }
}
