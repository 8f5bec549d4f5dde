//! The default store: a file of this user.

#[cfg(feature = "sqlite")]
use std::{
    env,
    path::{Path, PathBuf},
};

use crate::exit::Failure;
use crate::output::Output;

#[cfg(feature = "sqlite")]
const FILE: &str = "locks.db";

#[cfg(feature = "sqlite")]
pub(super) fn url(output: Output) -> Result<String, Failure> {
    use std::fs::DirBuilder;
    use std::os::unix::fs::DirBuilderExt as _;

    let folder = folder()?;
    DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(|error| {
        let folder = folder.display();
        Failure::usage(format!(
            "the folder {folder} cannot be made: {error}; name a store with --store"
        ))
    })?;
    warn_of_second_store(&folder, output);
    let path = folder.join(FILE);
    let path = path.to_str().ok_or_else(|| {
        Failure::usage("the folder for state of this user is not UTF-8; name a store with --store")
    })?;
    Ok(format!("sqlite://{}", super::url::encoded(path)))
}

#[cfg(not(feature = "sqlite"))]
pub(super) fn url(_: Output) -> Result<String, Failure> {
    Err(Failure::usage("no store is named: use --store, --store-file or SYNCGUARD_STORE"))
}

/// `$XDG_STATE_HOME/syncguard`, as the base directory specification says.
#[cfg(feature = "sqlite")]
fn folder() -> Result<PathBuf, Failure> {
    let folder = named_folder().or_else(folder_of_home);
    folder.ok_or_else(|| Failure::usage("this user has no home; name a store with --store"))
}

#[cfg(feature = "sqlite")]
fn named_folder() -> Option<PathBuf> {
    let state = env::var_os("XDG_STATE_HOME").map(PathBuf::from)?;
    state.is_absolute().then(|| state.join("syncguard"))
}

#[cfg(feature = "sqlite")]
fn folder_of_home() -> Option<PathBuf> {
    let home = env::home_dir().filter(|home| home.is_absolute())?;
    Some(home.join(".local/state/syncguard"))
}

/// Warns if this user has another default store, which programs without `XDG_STATE_HOME` use.
/// Programs without the variable cannot warn: they do not know its value elsewhere.
#[cfg(feature = "sqlite")]
fn warn_of_second_store(folder: &Path, output: Output) {
    use std::fs::{canonicalize, metadata};

    let Some(other) = folder_of_home().filter(|other| other != folder) else { return };
    let (path, other) = (folder.join(FILE), other.join(FILE));
    let is_there = metadata(&other).is_ok();
    // Two paths to one file are one store.
    let is_same =
        canonicalize(&other).is_ok_and(|other| canonicalize(&path).is_ok_and(|own| own == other));
    if is_there && !is_same {
        let (path, other) = (path.display(), other.display());
        output.note(format_args!(
            "this user has two default stores: {path} is used here, since XDG_STATE_HOME is set, and {other} where it \
             is not, as in cron; they know nothing of each other's locks. Name one with --store or SYNCGUARD_STORE, or \
             delete the one that nobody uses"
        ));
    }
}
