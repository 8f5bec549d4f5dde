//! Disks that are full, and processes without descriptors.

use std::process::Command;

use anyhow::{Result, ensure};

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
