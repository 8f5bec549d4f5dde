//! The path of this program, which starts itself for its helper processes.

use std::path::PathBuf;

use crate::exit::Failure;

pub(super) fn this_program() -> Result<PathBuf, Failure> {
    // Works even if a newer version has replaced the file meanwhile.
    let own = PathBuf::from("/proc/self/exe");
    if cfg!(target_os = "linux") && own.exists() {
        return Ok(own);
    }
    std::env::current_exe().map_err(|error| Failure::system("this program is not found", &error))
}
