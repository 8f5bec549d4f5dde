//! The options of `syncguard release`.

use std::path::PathBuf;

use clap::Args;

/// Releases a lock of `acquire`, or takes locks away from their holder
///
/// With --force the holder may still be at work, so the fence of the key is raised as well: a
/// service that checks fences refuses the old holder's writes from then on. A service that does not
/// check them cannot know.
#[derive(Args)]
#[command(override_usage = "syncguard release [OPTIONS] --from <FILE>\n       \
                            syncguard release [OPTIONS] --force <KEY>\n       \
                            syncguard release [OPTIONS] --force --holder <LABEL>")]
pub(crate) struct Options {
    #[command(flatten)]
    pub(super) which: Which,
    /// Confirms that the holder may lose its lock
    #[arg(long, required_unless_present = "from", conflicts_with = "from")]
    force: bool,
    /// Does not ask for confirmation on a terminal
    #[arg(long, short)]
    pub(super) yes: bool,
    /// Prints a line of JSON for each lock
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
pub(super) struct Which {
    /// The key of a lock to take away
    pub(super) key: Option<String>,
    /// Takes away all locks of the holder with exactly this label, such as a process that is dead; status
    /// 82 if there is none
    #[arg(long, value_name = "LABEL")]
    pub(super) holder: Option<String>,
    /// Releases the lock in this file of `acquire --save`, and removes the file; `-` is standard
    /// input. Ends with status 76 if the lock was no longer held; the file then stays until its
    /// expiry
    #[arg(long, value_name = "FILE")]
    pub(super) from: Option<PathBuf>,
}
