//! The file of `acquire --save` is the only record of a held lock, so no command loses it.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;
use serde_json::{Value, json};
use syncguard_test_services::wait;

use crate::acquire::place;
use crate::harness::{Harness, LONG, Running};

fn lock_in(path: &str) -> Result<Value> {
    Ok(serde_json::from_str(&fs::read_to_string(path)?)?)
}

/// A command that waits for a held lock, and has made its file.
fn waiter(harness: &Harness, key: &str, path: &str) -> Result<Running> {
    let waiter = harness.start(&["acquire", key, "--ttl", "1h", "--save", path])?;
    // It has its file, and hears of writes to the store.
    let open = format!("/proc/{}/fd", waiter.pid()?);
    wait::until("a waiter", LONG, || {
        let mut files =
            fs::read_dir(&open)?.flatten().filter_map(|fd| fs::read_link(fd.path()).ok());
        Ok(Path::new(path).exists() && files.any(|file| file.ends_with("anon_inode:inotify")))
    })?;
    Ok(waiter)
}

/// The record names its store, and another store is neither asked nor believed.
#[test]
fn a_lock_of_another_store_is_refused() -> Result<()> {
    let (harness, (_folder, path)) = (Harness::file()?, place()?);
    harness.run(&["acquire", "k", "--save", &path])?.expect(0)?;
    let record = fs::read_to_string(&path)?;
    let other = Harness::file()?;
    for command in ["extend", "release"] {
        let done = other.run(&[command, "--from", &path])?.expect(64)?;
        ensure!(done.stderr.contains(&harness.url) && done.stderr.contains(&other.url), "{done:?}");
        other.run_with_input(&[command, "--from", "-"], &record)?.expect(64)?;
    }
    ensure!(fs::read_to_string(&path)? == record && !harness.is_free("k")?);
    // Other options and another spelling of the path are the same store.
    let spelled = harness.url.replace("/locks.db", "/./locks.db?holder=me");
    Harness::at(spelled, None).run(&["release", "--from", &path])?.expect(0)?;

    // A password is in no record.
    let url = "redis://me:hunter2@127.0.0.1:1";
    let text = json!({"key": "k", "lockId": "A".repeat(22), "fence": "1", "expiresAtMs": 1, "store": "redis://127.0.0.1:1"});
    Harness::at(url.to_owned(), Some("hunter2"))
        .run_with_input(&["release", "--from", "-"], &text.to_string())?
        .expect(69)
        .map(drop)
}

/// A record without a store, as other programs write it, works. If the store does not know the lock,
/// the record stays until its expiry.
#[test]
fn a_record_stays_while_its_lock_may_be_held() -> Result<()> {
    let (harness, (_folder, path)) = (Harness::file()?, place()?);
    harness.run(&["acquire", "k", "--save", &path])?.expect(0)?;
    let mut record = lock_in(&path)?;
    ensure!(record.as_object_mut().context("an object")?.remove("store").is_some());
    fs::write(&path, record.to_string())?;
    let done = Harness::file()?.run(&["release", "--from", &path])?.expect(76)?;
    ensure!(done.stderr.contains("stays until the expiry"), "{done:?}");
    harness.run(&["extend", "--from", &path])?.expect(0)?;
    harness.run(&["release", "--from", &path])?.expect(0)?;
    ensure!(!Path::new(&path).exists());
    Ok(())
}

/// Somebody removes the file of a waiter, or puts another one in its place.
#[test]
fn a_waiter_that_lost_its_file_keeps_no_lock() -> Result<()> {
    let (harness, (_folder, path)) = (Harness::file()?, place()?);
    for new in [None, Some("other")] {
        let holder = harness.holder("k", &[])?;
        let waiter = waiter(&harness, "k", &path)?;
        fs::remove_file(&path)?;
        if let Some(text) = new {
            fs::write(&path, text)?;
        }
        holder.end()?.expect(0)?;
        let done = waiter.ended()?.expect(71)?;
        ensure!(done.stderr.contains("removed or replaced"), "{done:?}");
        ensure!(done.stderr.contains("the lock was released again"), "{done:?}");
        ensure!(fs::read_to_string(&path).ok().as_deref() == new && harness.is_free("k")?);
    }
    // A waiter that gives up leaves the file of the next one.
    fs::remove_file(&path)?;
    let holder = harness.holder("k", &[])?;
    let first = waiter(&harness, "k", &path)?;
    fs::remove_file(&path)?;
    let second = waiter(&harness, "k", &path)?;
    first.signal(Signal::TERM)?;
    first.ended()?.expect(143)?;
    holder.end()?.expect(0)?;
    second.ended()?.expect(0)?;
    harness.run(&["release", "--from", &path])?.expect(0).map(drop)
}

/// A killed waiter leaves an empty file, which the next one uses.
#[test]
fn an_empty_file_without_a_waiter_is_used_again() -> Result<()> {
    let (harness, (folder, path)) = (Harness::file()?, place()?);
    let holder = harness.holder("k", &[])?;
    let killed = waiter(&harness, "k", &path)?;
    let done = harness.run(&["extend", "--from", &path])?.expect(64)?;
    ensure!(done.stderr.contains("still waits"), "{done:?}");
    let done = harness.run(&["acquire", "k", "--save", &path])?.expect(64)?;
    ensure!(done.stderr.contains("another `syncguard acquire`"), "{done:?}");
    killed.signal(Signal::KILL)?;
    killed.ended()?;
    ensure!(fs::metadata(&path)?.size() == 0);
    let done = harness.run(&["extend", "--from", &path])?.expect(64)?;
    ensure!(done.stderr.contains("has ended without a lock"), "{done:?}");
    holder.end()?.expect(0)?;
    harness.run(&["acquire", "k", "--save", &path])?.expect(0)?;
    harness.run(&["release", "--from", &path])?.expect(0)?;

    // Others could read the lock in a file that they have made or may open.
    fs::write(&path, "")?;
    for mode in [0o640, 0o604] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
        harness.run(&["acquire", "k", "--save", &path])?.expect(64)?;
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
    let link = folder.path().join("link").display().to_string();
    symlink(&path, &link)?;
    harness.run(&["acquire", "k", "--save", &link])?.expect(64)?;
    harness.run(&["acquire", "k", "--save", &path])?.expect(0).map(drop)
}

/// Two commands extend one lock at once, and the name of the file has the longest length.
#[test]
fn extends_at_once_all_succeed() -> Result<()> {
    let (harness, folder) = (Harness::file()?, tempfile::tempdir()?);
    let path = folder.path().join("n".repeat(250)).display().to_string();
    harness.run(&["acquire", "k", "--save", &path])?.expect(0)?;
    for _ in 0..3 {
        let extends: Vec<Running> =
            (0..2).map(|_| harness.start(&["extend", "--from", &path])).collect::<Result<_>>()?;
        for extend in extends {
            extend.ended()?.expect(0)?;
        }
    }
    ensure!(fs::read_dir(folder.path())?.count() == 1);
    harness.run(&["release", "--from", &path])?.expect(0).map(drop)
}
