//! Settings that lose data.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use anyhow::{Result, ensure};
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
