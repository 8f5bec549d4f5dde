//! A shell that outlives this process long enough to end its servers.
//!
//! `Drop` is not enough: it runs neither for a `static` nor after a SIGKILL. The kernel's parent-death signal does
//! not work either, because it fires when the *thread* that started the child ends, and a test harness runs each test
//! on a thread of its own.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result};

use crate::scratch;

/// From now on the watchdog kills the process group when this process ends.
pub(crate) fn add(group: u32) -> Result<()> {
    tell(&format!("add {group}\n"))
}

/// The group is gone, and its number may be used again.
pub(crate) fn forget(group: u32) -> Result<()> {
    tell(&format!("del {group}\n"))
}

/// The folder for all files of this process, removed when the process ends.
pub(crate) fn root() -> Result<PathBuf> {
    with_watchdog(|watchdog| Ok(watchdog.root.clone()))
}

fn tell(line: &str) -> Result<()> {
    with_watchdog(|watchdog| {
        watchdog
            .stdin
            .write_all(line.as_bytes())
            .context("the watchdog that ends test servers is gone")
    })
}

struct Watchdog {
    root: PathBuf,
    /// The only write end: when this process ends, the watchdog reads the end of its input.
    stdin: ChildStdin,
}

impl Watchdog {
    fn start() -> Result<Self> {
        let root = scratch::create_root()?;
        let mut shell = Command::new("sh")
            .args(["-c", include_str!("watchdog.sh"), "syncguard-watchdog"])
            .arg(&root)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C goes to the terminal's process group, and the watchdog has to survive it.
            .process_group(0)
            .spawn()
            .context("cannot start `sh` as a watchdog for the test servers")?;
        let stdin = shell.stdin.take().context("the watchdog has no standard input")?;
        Ok(Self { root, stdin })
    }
}

fn with_watchdog<T>(use_it: impl FnOnce(&mut Watchdog) -> Result<T>) -> Result<T> {
    static WATCHDOG: Mutex<Option<Watchdog>> = Mutex::new(None);
    let mut watchdog = WATCHDOG.lock().unwrap_or_else(PoisonError::into_inner);
    match &mut *watchdog {
        Some(running) => use_it(running),
        none @ None => use_it(none.insert(Watchdog::start()?)),
    }
}
