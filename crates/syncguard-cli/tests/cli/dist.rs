//! The completions and man pages in `dist`, for packages. `UPDATE_EXPECT=1` writes them anew.

use anyhow::Result;
use expect_test::{ExpectFile, expect_file};

use crate::harness::Harness;

#[test]
fn the_files_in_dist_are_what_the_command_prints() -> Result<()> {
    let files: [(ExpectFile, &[&str]); 19] = [
        (expect_file!["../../dist/_syncguard"], &["completions", "zsh"]),
        (expect_file!["../../dist/syncguard.bash"], &["completions", "bash"]),
        (expect_file!["../../dist/syncguard.fish"], &["completions", "fish"]),
        (expect_file!["../../dist/syncguard.1"], &["man"]),
        (expect_file!["../../dist/syncguard-acquire.1"], &["man", "acquire"]),
        (expect_file!["../../dist/syncguard-completions.1"], &["man", "completions"]),
        (expect_file!["../../dist/syncguard-copy-fences.1"], &["man", "copy-fences"]),
        (expect_file!["../../dist/syncguard-doctor.1"], &["man", "doctor"]),
        (expect_file!["../../dist/syncguard-export.1"], &["man", "export"]),
        (expect_file!["../../dist/syncguard-extend.1"], &["man", "extend"]),
        (expect_file!["../../dist/syncguard-fence.1"], &["man", "fence"]),
        (expect_file!["../../dist/syncguard-ls.1"], &["man", "ls"]),
        (expect_file!["../../dist/syncguard-man.1"], &["man", "man"]),
        (expect_file!["../../dist/syncguard-release.1"], &["man", "release"]),
        (expect_file!["../../dist/syncguard-run.1"], &["man", "run"]),
        (expect_file!["../../dist/syncguard-setup.1"], &["man", "setup"]),
        (expect_file!["../../dist/syncguard-status.1"], &["man", "status"]),
        (expect_file!["../../dist/syncguard-tick.1"], &["man", "tick"]),
        (expect_file!["../../dist/syncguard-watch.1"], &["man", "watch"]),
    ];
    let harness = Harness::file()?;
    for (file, arguments) in files {
        file.assert_eq(&harness.run(arguments)?.stdout);
    }
    Ok(())
}
