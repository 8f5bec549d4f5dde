//! Finds the servers' programs, and installs missing ones on request.

use std::env;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use rustix::fs::{FlockOperation, flock};

/// A program that a server needs, and its package.
#[derive(Debug, Clone, Copy)]
pub struct Program {
    /// The names of the program, the preferred one first.
    pub names: &'static [&'static str],
    /// Folders that are searched before `PATH`. One `*` may stand for a version; the highest is taken.
    pub folders: &'static [&'static str],
    /// Debian's package.
    pub package: &'static str,
    /// How to install it on a system other than Debian, or if Debian does not have it.
    pub otherwise: &'static str,
}

impl Program {
    fn how_to_install(&self) -> String {
        format!(
            "{} is missing: run `cargo xtask test`, which installs it on Debian (as root), or \
             apt-get install {}, or else {}",
            self.names.join(" or "),
            self.package,
            self.otherwise
        )
    }
}

/// The folders of servers that are taken before those of the system, in the form of `PATH`.
pub const SERVERS: &str = "SYNCGUARD_SERVERS";

/// If this environment variable is set, tests install missing programs. `cargo xtask` sets it for the commands that
/// it runs; plain `cargo test` leaves the system as it is.
pub const INSTALL: &str = "SYNCGUARD_TEST_INSTALL";

/// Acts as if [`INSTALL`] were set for this process.
pub fn allow() {
    ALLOWED.store(true, Ordering::Relaxed);
}

static ALLOWED: AtomicBool = AtomicBool::new(false);

/// The path of `program`. If it is missing and [`INSTALL`] is set, it is installed first, provided that this is
/// Debian and the process is root.
pub fn require(program: &Program) -> Result<PathBuf> {
    require_with(program, || find(program))
}

/// Like [`require`], for a program that `find` finds instead of a path.
pub(crate) fn require_with(
    program: &Program,
    find: impl Fn() -> Option<PathBuf>,
) -> Result<PathBuf> {
    obtain(program, find, is_allowed())
}

/// True if missing programs are to be installed or fetched.
pub(crate) fn is_allowed() -> bool {
    ALLOWED.load(Ordering::Relaxed) || env::var_os(INSTALL).is_some()
}

/// The path of `program` in this folder, or as [`require`] finds it without a folder.
pub(crate) fn require_in(folder: Option<&Path>, program: &Program) -> Result<PathBuf> {
    let Some(folder) = folder else { return require(program) };
    let found = find_in(&[folder.to_owned()], program);
    found.with_context(|| format!("{} has no {}", folder.display(), program.names.join(" or ")))
}

fn obtain(
    program: &Program,
    find: impl Fn() -> Option<PathBuf>,
    may_install: bool,
) -> Result<PathBuf> {
    if let Some(path) = find() {
        return Ok(path);
    }
    let debian = Path::new("/etc/debian_version").exists();
    let can_install = debian && rustix::process::geteuid().is_root();
    ensure!(may_install && can_install, program.how_to_install());

    let _apt = AptLock::take()?;
    // Another process may have installed the program while this one waited for the lock.
    if find().is_none() {
        apt_install(program.package).with_context(|| program.how_to_install())?;
    }
    find().with_context(|| {
        format!(
            "{} is still missing after apt-get install {}",
            program.names.join(" or "),
            program.package
        )
    })
}

/// The path of `program` if it is installed.
#[must_use]
pub fn find(program: &Program) -> Option<PathBuf> {
    let (chosen, path) = [SERVERS, "PATH"].map(|name| env::var_os(name).unwrap_or_default()).into();
    let system: Vec<PathBuf> = (program.folders.iter().flat_map(|folder| expand(folder)))
        .chain(env::split_paths(&path))
        .chain(["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from))
        .collect();
    // Any name of a chosen server comes before the preferred name of another.
    find_in(&env::split_paths(&chosen).collect::<Vec<_>>(), program)
        .or_else(|| find_in(&system, program))
}

fn find_in(folders: &[PathBuf], program: &Program) -> Option<PathBuf> {
    (program.names.iter())
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
        .find(|path| is_executable(path))
}

/// The user and group of servers that refuse to run as root; `None` if this process is not root.
///
/// Call this after the installation of a server, which may create the user; the answer never changes.
pub(crate) fn unprivileged_user() -> Result<Option<(u32, u32)>> {
    static USER: OnceLock<(u32, u32)> = OnceLock::new();
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    if let Some(user) = USER.get() {
        return Ok(Some(*user));
    }
    let users = fs::read_to_string("/etc/passwd").context("cannot read /etc/passwd")?;
    let user = user_ids(&users, "postgres").or_else(|| user_ids(&users, "nobody"));
    let user = user.context("there is neither a user postgres nor nobody to run a server as")?;
    Ok(Some(*USER.get_or_init(|| user)))
}

/// From a line "name:password:user:group:…".
fn user_ids(users: &str, name: &str) -> Option<(u32, u32)> {
    let mut lines = users.lines().map(|line| line.split(':'));
    let mut fields = lines.find_map(|mut fields| (fields.next()? == name).then_some(fields))?;
    Some((fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?))
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// The folders that match a pattern, the highest version first.
fn expand(pattern: &str) -> Vec<PathBuf> {
    let Some((before, after)) = pattern.split_once("/*/") else {
        return vec![PathBuf::from(pattern)];
    };
    let entries = fs::read_dir(before).into_iter().flatten().flatten();
    let mut versions: Vec<(u32, PathBuf)> = entries
        .filter_map(|entry| {
            let version = entry.file_name().to_str()?.parse().ok()?;
            Some((version, entry.path().join(after)))
        })
        .collect();
    versions.sort_by_key(|(version, _)| std::cmp::Reverse(*version));
    versions.into_iter().map(|(_, path)| path).collect()
}

fn apt_install(package: &str) -> Result<()> {
    // The package lists of a fresh machine are empty or old. One update for each process is enough, failed or not.
    static UPDATED: OnceLock<Result<(), String>> = OnceLock::new();
    let updated =
        UPDATED.get_or_init(|| apt_get(&["update"]).map_err(|error| format!("{error:#}")));

    let _no_services = ServiceStartBan::put_up()?;
    apt_get(&["install", "-y", "--no-install-recommends", package]).map_err(|error| match updated {
        Ok(()) => error,
        Err(update) => error.context(anyhow!("{update}")),
    })
}

fn apt_get(arguments: &[&str]) -> Result<()> {
    let output = Command::new("apt-get")
        .args(["-o", "DPkg::Lock::Timeout=300"])
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .context("cannot run apt-get")?;
    if !output.status.success() {
        bail!(
            "apt-get {} failed: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(())
}

/// Allows one installation at a time on this machine, across all processes.
struct AptLock {
    _file: File,
}

impl AptLock {
    fn take() -> Result<Self> {
        let path = env::temp_dir().join("syncguard-apt.lock");
        let file =
            File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
        flock(&file, FlockOperation::LockExclusive)?;
        Ok(Self { _file: file })
    }
}

/// Keeps the packages' scripts from starting the system's own servers, because tests start theirs.
struct ServiceStartBan {
    created: bool,
}

impl ServiceStartBan {
    fn put_up() -> Result<Self> {
        let created = !Path::new(POLICY).exists();
        if created {
            fs::write(POLICY, "#!/bin/sh\nexit 101\n")
                .with_context(|| format!("cannot write {POLICY}"))?;
            fs::set_permissions(POLICY, fs::Permissions::from_mode(0o755))?;
        }
        Ok(Self { created })
    }
}

impl Drop for ServiceStartBan {
    fn drop(&mut self) {
        if self.created {
            let _ = fs::remove_file(POLICY);
        }
    }
}

const POLICY: &str = "/usr/sbin/policy-rc.d";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_the_highest_version() {
        let root = tempfile::tempdir().unwrap();
        for version in ["9", "15", "common"] {
            fs::create_dir_all(root.path().join(version).join("bin")).unwrap();
        }
        let pattern = format!("{}/*/bin", root.path().display());
        let found = expand(&pattern);
        assert_eq!(found, [root.path().join("15/bin"), root.path().join("9/bin")]);
    }

    #[test]
    fn a_file_that_is_not_executable_is_not_a_program() {
        assert!(is_executable(Path::new("/bin/sh")));
        assert!(!is_executable(Path::new("/etc/passwd")));
        assert!(!is_executable(Path::new("/usr/bin")));
    }

    #[test]
    fn reads_the_ids_of_a_user() {
        let users = "root:x:0:0:root:/root:/bin/sh\npostgres:x:101:104::/var:/bin/sh\n";
        assert_eq!(user_ids(users, "postgres"), Some((101, 104)));
        assert_eq!(user_ids(users, "nobody"), None);
    }

    #[test]
    fn says_how_to_install_what_is_missing() {
        let program = Program {
            names: &["syncguard-no-such-program"],
            folders: &[],
            package: "syncguard-no-such-package",
            otherwise: "write it",
        };
        assert_eq!(find(&program), None);
        let error = obtain(&program, || find(&program), false).unwrap_err().to_string();
        assert_eq!(
            error,
            "syncguard-no-such-program is missing: \
             run `cargo xtask test`, which installs it on Debian (as root), or \
             apt-get install syncguard-no-such-package, or else write it"
        );
    }
}
