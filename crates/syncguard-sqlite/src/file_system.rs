//! The kind of file system that a file is on.

use std::path::Path;

use syncguard_core::LockError;

/// The kinds of file systems that a lock file may be on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The file system is in memory, and empty after a restart.
    Memory,
    /// The file system is a container's own layer, and is deleted with the container.
    Overlay,
    Other,
}

impl Kind {
    /// # Errors
    ///
    /// `InvalidArgument` for a file system where processes do not see each other's locks.
    pub(crate) fn of(path: &Path) -> Result<Self, LockError> {
        system::kind(path).ok_or_else(|| LockError::invalid_argument(
            "the lock file is on a network file system, or on one that another program runs (FUSE); it must be on a local disk of this machine",
        ))
    }
}

#[cfg(target_os = "linux")]
mod system {
    use std::path::Path;

    use super::Kind;

    /// `None` for a file system that is shared with other machines, or run by another program.
    pub(super) fn kind(path: &Path) -> Option<Kind> {
        // If the system does not say, SQLite finds out whether it works there.
        let Ok(stat) = rustix::fs::statfs(path) else { return Some(Kind::Other) };
        // The field has the width of a machine word; the numbers have 32 bits.
        by_number((stat.f_type.cast_unsigned() & 0xffff_ffff).try_into().unwrap_or(0))
    }

    /// Looks up a number from `linux/magic.h`, or from the file system's own sources.
    pub(super) fn by_number(number: u32) -> Option<Kind> {
        // FUSE, NFS, SMB (three), 9P, AFS (two), Ceph, Coda, NCP, Lustre, GFS2, OCFS2, GPFS, BeeGFS, vboxsf,
        // VMware's shared folders, OrangeFS.
        const REMOTE: [u32; 19] = [
            0x6573_5546,
            0x6969,
            0xff53_4d42,
            0xfe53_4d42,
            0x517b,
            0x0102_1997,
            0x5346_414f,
            0x6b41_4653,
            0x00c3_6400,
            0x7375_7245,
            0x564c,
            0x0bd0_0bd0,
            0x0116_1970,
            0x7461_636f,
            0x4750_4653,
            0x1983_0326,
            0x786f_4256,
            0xbacb_acbc,
            0x2003_0528,
        ];
        // tmpfs, ramfs.
        const MEMORY: [u32; 2] = [0x0102_1994, 0x8584_58f6];
        const OVERLAY: u32 = 0x794c_7630;
        match number {
            number if REMOTE.contains(&number) => None,
            number if MEMORY.contains(&number) => Some(Kind::Memory),
            OVERLAY => Some(Kind::Overlay),
            _ => Some(Kind::Other),
        }
    }
}

#[cfg(target_vendor = "apple")]
mod system {
    use std::path::Path;

    use super::Kind;

    pub(super) fn kind(path: &Path) -> Option<Kind> {
        /// `MNT_LOCAL`: the file system is on this machine.
        const LOCAL: u32 = 0x1000;
        match rustix::fs::statfs(path) {
            Ok(stat) if stat.f_flags & LOCAL == 0 => None,
            _ => Some(Kind::Other),
        }
    }
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
mod system {
    use std::path::Path;

    use super::Kind;

    /// These systems offer no such look-up here.
    #[expect(clippy::unnecessary_wraps, reason = "elsewhere a file system can be remote")]
    pub(super) fn kind(_: &Path) -> Option<Kind> {
        Some(Kind::Other)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn what_others_share_is_refused() {
        for (number, kind) in [
            (0x6969, None),
            (0xff53_4d42, None),
            (0xfe53_4d42, None),
            (0x6573_5546, None),
            (0x0102_1997, None),
            (0x0102_1994, Some(Kind::Memory)),
            (0x794c_7630, Some(Kind::Overlay)),
            (0xef53, Some(Kind::Other)),
            (0x9123_683e, Some(Kind::Other)),
            (0x5846_5342, Some(Kind::Other)),
        ] {
            assert_eq!(system::by_number(number), kind, "{number:x}");
        }
    }

    #[test]
    fn memory_is_recognised() {
        if Path::new("/dev/shm").is_dir() {
            assert_eq!(Kind::of(Path::new("/dev/shm")).unwrap(), Kind::Memory);
        }
        assert_eq!(Kind::of(Path::new("/proc")).unwrap(), Kind::Other);
        assert_eq!(Kind::of(Path::new("/no/such/folder")).unwrap(), Kind::Other);
    }
}
