//! Finds the program of the command before a lock is taken.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::exit::{Failure, Status};

/// The path of a program, and the name that the user typed.
pub(super) struct Program {
    pub(super) path: PathBuf,
    pub(super) name: OsString,
}

/// Looks for a program where a shell would.
pub(super) fn find(name: &OsStr) -> Result<Program, Failure> {
    let found = |path: PathBuf| Program { path, name: name.to_owned() };
    if name.as_encoded_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return match fs::metadata(&path) {
            Err(_) => Err(not_found(name)),
            Ok(_) if is_executable(&path) => Ok(found(path)),
            Ok(_) => Err(not_executable(name)),
        };
    }
    let folders = env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/bin:/bin"));
    let mut candidates: Vec<PathBuf> = Vec::new();
    if !name.is_empty() {
        candidates.extend(env::split_paths(&folders).map(|folder| folder.join(name)));
        candidates.retain(|path| path.is_file());
    }
    match candidates.iter().find(|path| is_executable(path)) {
        Some(path) => Ok(found(path.clone())),
        None if candidates.is_empty() => Err(not_found(name)),
        None => Err(not_executable(name)),
    }
}

fn is_executable(path: &Path) -> bool {
    let is_file = fs::metadata(path)
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0);
    is_file && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

fn not_found(name: &OsStr) -> Failure {
    let name = name.display();
    Failure::new(Status::NOT_FOUND, format!("{name}: there is no such command; nothing was locked"))
}

fn not_executable(name: &OsStr) -> Failure {
    let message = format!(
        "{}: is not executable, or not by this user; nothing was locked (chmod +x makes a script executable)",
        name.display()
    );
    Failure::new(Status::NOT_EXECUTABLE, message)
}
