//! Finds the program of the command before a lock is taken.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::escape::escape_for_terminal;
use crate::exit::{Failure, Status};

/// The path of a program, and the name that the user typed.
pub(super) struct Program {
    pub(super) path: PathBuf,
    pub(super) name: OsString,
}

/// Looks for a program where a shell would.
///
/// # Errors
///
/// Fails if there is no such program. If the command looks like a line for a shell, the message
/// says how a shell gets it.
pub(super) fn find(name: &OsStr, arguments: &[OsString]) -> Result<Program, Failure> {
    let is_path = name.as_encoded_bytes().contains(&b'/');
    let mut candidates: Vec<PathBuf> = if is_path {
        vec![PathBuf::from(name)]
    } else {
        let folders = env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/bin:/bin"));
        env::split_paths(&folders).map(|folder| folder.join(name)).collect()
    };
    candidates.retain(|path| if is_path { path.exists() } else { path.is_file() });
    match candidates.iter().find(|path| is_executable(path)) {
        Some(path) => Ok(Program { path: path.clone(), name: name.to_owned() }),
        None if candidates.is_empty() => Err(not_found(name, arguments)),
        None => Err(not_executable(name)),
    }
}

fn is_executable(path: &Path) -> bool {
    let is_file = fs::metadata(path)
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0);
    is_file && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

fn not_found(name: &OsStr, arguments: &[OsString]) -> Failure {
    let hint = shell_hint(name, arguments).unwrap_or_default();
    let name = escape_for_terminal(&name.to_string_lossy());
    let message = format!("{name}: there is no such command; nothing was locked{hint}");
    Failure::new(Status::NOT_FOUND, message)
}

/// The command line to type instead, if the command is a line for a shell.
fn shell_hint(name: &OsStr, arguments: &[OsString]) -> Option<String> {
    let line = match (name.to_str()?, arguments) {
        ("-c", [line, ..]) => line.to_str()?,
        (name, []) => Some(name).filter(|name| name.contains(is_for_a_shell))?,
        _ => return None,
    };
    let line = escape_for_terminal(&line.replace('\'', "'\\''"));
    Some(format!(". A shell runs such a line: syncguard run KEY -- sh -c '{line}'"))
}

fn is_for_a_shell(char: char) -> bool {
    char.is_whitespace() || ";|&<>$`*?(){}'\"".contains(char)
}

fn not_executable(name: &OsStr) -> Failure {
    let message = format!(
        "{}: is not executable, or not by this user; nothing was locked (chmod +x makes a script executable)",
        name.display()
    );
    Failure::new(Status::NOT_EXECUTABLE, message)
}
