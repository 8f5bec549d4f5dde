//! Refuses a file that is mounted by itself.
//!
//! A container can mount a single file (`docker -v /host/l.db:/data/l.db`, `subPath` in Kubernetes). The file
//! then has another name in another folder, and SQLite makes its two files beside it once for each folder. So
//! two processes use the same database and do not see each other's locks.

use std::path::Path;

use syncguard_core::LockError;

/// # Errors
///
/// `InvalidArgument` for a file that is mounted by itself.
pub(crate) fn check(path: &Path) -> Result<(), LockError> {
    if !system::is_mounted(path) {
        return Ok(());
    }
    Err(LockError::invalid_argument(
        "the lock file is mounted by itself, so processes that open it under another name would not see its locks; mount its folder instead",
    ))
}

#[cfg(target_os = "linux")]
mod system {
    use std::ffi::OsString;
    use std::fs;
    use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
    use std::path::Path;

    use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};

    /// Linux has this attribute from 5.8 on. Without it, or if statx is forbidden, the list of mounts decides.
    pub(super) fn is_mounted(path: &Path) -> bool {
        let told = statx(CWD, path, AtFlags::empty(), StatxFlags::empty()).ok();
        let told =
            told.filter(|told| told.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT));
        told.map_or_else(
            || fs::read("/proc/self/mountinfo").is_ok_and(|mounts| is_listed(&mounts, path)),
            |told| told.stx_attributes.contains(StatxAttributes::MOUNT_ROOT),
        )
    }

    /// Returns whether the list has a mount at this path. The path must have no symbolic link in it.
    pub(super) fn is_listed(mounts: &[u8], path: &Path) -> bool {
        // `36 35 98:0 /root /the/mount/point rw,noatime ...`
        let points = mounts
            .split(|byte| *byte == b'\n')
            .filter_map(|line| line.split(|byte| *byte == b' ').nth(4));
        points.map(unescaped).any(|point| point.as_bytes() == path.as_os_str().as_bytes())
    }

    /// Decodes a path from the list, which has blanks, tabs, newlines and backslashes as three octal digits.
    fn unescaped(point: &[u8]) -> OsString {
        let (mut plain, mut rest) = (Vec::with_capacity(point.len()), point);
        while let Some((first, others)) = rest.split_first() {
            let code = others.get(..3).filter(|_| *first == b'\\');
            let code = code.and_then(|code| std::str::from_utf8(code).ok());
            match code.and_then(|code| u8::from_str_radix(code, 8).ok()) {
                Some(byte) => {
                    plain.push(byte);
                    rest = others.get(3..).unwrap_or_default();
                }
                None => {
                    plain.push(*first);
                    rest = others;
                }
            }
        }
        OsString::from_vec(plain)
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::path::Path;

    /// These systems cannot mount a single file.
    pub(super) fn is_mounted(_: &Path) -> bool {
        false
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_list_of_mounts_is_read() {
        let mounts = b"22 28 0:20 / /proc rw shared:5 - proc proc rw\n\
            36 35 98:0 /l.db /data/my\\040locks.db rw,noatime - ext4 /dev/sda rw\n";
        let is_listed = |path| system::is_listed(mounts, Path::new(path));
        assert!(is_listed("/data/my locks.db") && is_listed("/proc"));
        assert!(!is_listed("/data") && !is_listed("/l.db") && !is_listed("/data/my\\040locks.db"));
    }

    #[test]
    fn both_ways_agree_on_what_is_mounted_here() {
        let mounts = fs::read("/proc/self/mountinfo").unwrap();
        for path in ["/proc", "/", "/proc/self/mountinfo"] {
            let path = Path::new(path);
            assert_eq!(system::is_mounted(path), system::is_listed(&mounts, path), "{path:?}");
        }
        assert!(check(Path::new("/proc")).is_err());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("locks.db");
        fs::write(&path, "").unwrap();
        check(&path).unwrap();
    }
}
