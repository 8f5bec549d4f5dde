//! The program refuses the late write.

use std::process::Command;

#[test]
fn a_late_write_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}?mode=rwc", folder.path().join("data.db").display());
    let output = Command::new(env!("CARGO_BIN_EXE_fenced_sqlx_sqlite")).arg(url).output().unwrap();
    let (said, refused) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    let written: Vec<_> = said.lines().filter_map(|line| line.rsplit(' ').next()).collect();
    assert_eq!(written, ["true", "false", "new", "true"], "{said}{refused}");
    assert!(refused.contains("is stale: a holder with the fence"), "{refused}");
}
