//! SQLite.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use rustix::process::getuid;
use syncguard::ErrorCode;
use syncguard::sqlite::{SqliteBackend, SqliteOptions};
use syncguard_tests::calls::risks;

use crate::sqlite::support::{on_a_small_disk, worker};

#[test]
fn a_full_disk_keeps_what_is_held() -> Result<()> {
    let said = on_a_small_disk("$WORKER hold $DISK/locks.db $DISK/filler")?;
    ensure!(said.ends_with("extended 1000 times, and back\n"), "{said}");
    Ok(())
}

/// Opening a file on a full disk, with and without a file for locks.
#[test]
fn a_full_disk_is_said_in_words() -> Result<()> {
    let said = on_a_small_disk(
        "$WORKER try $DISK/locks.db
         rm -f $DISK/locks.db-wal $DISK/locks.db-shm
         head -c 300000 /dev/zero > $DISK/filler 2>&- || true
         $WORKER try $DISK/locks.db
         $WORKER try $DISK/new.db
         rm $DISK/filler $DISK/new.db*
         i=0; while touch $DISK/$i 2>&-; do i=$((i + 1)); done
         rm $DISK/0
         $WORKER try $DISK/another.db",
    )?;
    let mut lines = said.lines();
    ensure!(lines.next() == Some("fence 1"), "{said}");
    let errors: Vec<_> = lines.collect();
    ensure!(errors.len() == 3, "{said}");
    for error in errors {
        ensure!(error.starts_with("error ServiceUnavailable "), "{said}");
        ensure!(error.contains("the disk of the lock file is full"), "{said}");
    }
    Ok(())
}

#[test]
fn a_process_without_descriptors_is_told_so() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let script = "ulimit -n 40; exec \"$0\" starve \"$1\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, worker()]).arg(folder.path().join("locks.db"));
    let said = String::from_utf8(command.output()?.stdout)?;
    let mut tries: Vec<_> = said.lines().collect();
    ensure!(tries.pop().is_some_and(|last| last.starts_with("fence ")), "{said}");
    ensure!(tries.len() >= 3, "{said}");
    for error in tries {
        ensure!(error.starts_with("error ServiceUnavailable "), "{said}");
        ensure!(error.contains("no file descriptor left"), "{said}");
    }
    Ok(())
}

/// A user who may rename the file lets the next program make a second one.
#[tokio::test]
async fn a_folder_of_others_is_a_risk() -> Result<()> {
    const NOBODY: u32 = 65534;
    let above = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let folder = above.path().join("folder");
    let file = folder.join("locks.db");
    fs::create_dir(&folder)?;
    let found = async || -> Result<Vec<&str>> {
        let risks = risks(&SqliteBackend::open(&file).await?).await;
        let strict = SqliteOptions::new().with_strict_durability(true);
        let refused = SqliteBackend::open_with(&file, strict).await.err();
        let code = refused.map(|error| error.code());
        ensure!(code == (!risks.is_empty()).then_some(ErrorCode::InvalidArgument), "{risks:?}");
        Ok(risks)
    };
    let set = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode));
    let open = ["folder"];
    for (above_mode, folder_mode, file_mode, expected) in [
        (0o755, 0o755, 0o600, &[][..]),
        (0o755, 0o777, 0o600, &open),
        (0o755, 0o1777, 0o600, &open),
        (0o755, 0o775, 0o600, &open),
        (0o777, 0o755, 0o600, &open),
        (0o775, 0o700, 0o600, &open),
        // Others can rename nothing in a sticky folder.
        (0o1777, 0o755, 0o600, &[]),
        // The group of the file is the group of the folder.
        (0o755, 0o770, 0o660, &[]),
    ] {
        for (path, mode) in [(above.path(), above_mode), (&folder, folder_mode)] {
            set(path, mode)?;
        }
        if file.exists() {
            set(&file, file_mode)?;
        }
        let risks = found().await?;
        ensure!(risks == expected, "{above_mode:o} {folder_mode:o} {file_mode:o}: {risks:?}");
    }
    set(&folder, 0o755)?;
    // Only root can give files away.
    if getuid().is_root() {
        let foreign = ["owner"];
        chown(&file, Some(NOBODY), None)?;
        ensure!(found().await? == foreign);
        chown(&file, Some(0), None)?;
        chown(&folder, Some(NOBODY), None)?;
        ensure!(found().await? == foreign);
    }
    Ok(())
}
