//! Settings that lose data.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;

use anyhow::{Result, ensure};
use rustix::process::getuid;
use syncguard_sqlite::{ErrorCode, SqliteBackend, SqliteOptions, Synchronous};
use syncguard_tests::calls::risks;

use crate::sqlite::support::File;

#[tokio::test]
async fn risks_are_found_and_refused_in_strict_mode() -> Result<()> {
    let strict = || SqliteOptions::new().with_strict_durability(true);
    let file = File::on_disk();
    ensure!(risks(&file.open_with(strict()).await).await.is_empty());

    let normal = || SqliteOptions::new().with_synchronous(Synchronous::Normal);
    let backend = file.open_with(normal()).await;
    ensure!(risks(&backend).await == ["synchronous"]);
    let refused =
        SqliteBackend::open_with(file.path(), normal().with_strict_durability(true)).await;
    let error = refused.expect_err("strict");
    ensure!(error.code() == ErrorCode::InvalidArgument, "{error}");
    ensure!(error.message().contains("synchronous is normal"), "{error}");

    fs::set_permissions(file.path(), fs::Permissions::from_mode(0o666))?;
    let backend = file.open().await;
    ensure!(risks(&backend).await == ["mode"]);
    ensure!(SqliteBackend::open_with(file.path(), strict()).await.is_err());
    Ok(())
}

#[tokio::test]
async fn a_file_in_memory_is_a_risk() -> Result<()> {
    let folder = tempfile::tempdir_in("/dev/shm")?;
    let backend = SqliteBackend::open(folder.path().join("locks.db")).await?;
    ensure!(risks(&backend).await == ["file-system"]);
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
    let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
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
