//! The default store: a file of this user.

use std::env;
use std::fs::{DirBuilder, canonicalize, metadata};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::access::Access;
use crate::exit::Failure;
use crate::output::Output;

const FILE: &str = "locks.db";

/// The folder of the default store, which need not exist.
pub(super) fn folder() -> Result<PathBuf, Failure> {
    if cfg!(not(feature = "sqlite")) {
        let says = "no store is named: use --store, --store-file or SYNCGUARD_STORE";
        return Err(Failure::usage(says));
    }
    let folder = named_folder().or_else(folder_of_home);
    folder.ok_or_else(|| Failure::usage("this user has no home; name a store with --store"))
}

pub(super) fn url(folder: &Path) -> Result<String, Failure> {
    let path = folder.join(FILE);
    let path = path.to_str().ok_or_else(|| {
        Failure::usage("the folder for state of this user is not UTF-8; name a store with --store")
    })?;
    Ok(format!("sqlite://{}", super::url::encoded(path)))
}

/// Makes the folder, which only this user can read.
pub(super) fn make(folder: &Path) -> Result<(), Failure> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| {
        let folder = folder.display();
        Failure::usage(format!(
            "the folder {folder} cannot be made: {error}; name a store with --store"
        ))
    })
}

/// Says that these locks are of this machine alone: in the crontab of a fleet, each machine would have its own
/// locks, and run the job.
pub(super) fn tell(folder: &Path, access: Access, output: Output) {
    let path = folder.join(FILE);
    let says = format!(
        "no store is named, so {} is used: its locks count for this user on this machine alone. SYNCGUARD_STORE, \
         --store or --store-file names a store that other machines share",
        path.display()
    );
    match (access, path.exists()) {
        (Access::Lock, true) => {}
        // The first use is told even to those who want errors only, such as cron.
        (Access::Lock | Access::Share, false) => output.error(says),
        (Access::Share | Access::Look, _) => output.note(says),
    }
    warn_of_second_store(folder, output);
}

/// `$XDG_STATE_HOME/syncguard`, as the base directory specification says.
fn named_folder() -> Option<PathBuf> {
    let state = env::var_os("XDG_STATE_HOME").map(PathBuf::from)?;
    state.is_absolute().then(|| state.join("syncguard"))
}

fn folder_of_home() -> Option<PathBuf> {
    let home = env::home_dir().filter(|home| home.is_absolute())?;
    Some(home.join(".local/state/syncguard"))
}

/// Warns if this user has another default store, which programs without `XDG_STATE_HOME` use.
/// Programs without the variable cannot warn: they do not know its value elsewhere.
fn warn_of_second_store(folder: &Path, output: Output) {
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
