//! Bad input is named, with the mend, and nothing is locked.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use crate::harness::{Finished, Harness};

/// The arguments, the exit status, and a text that the message must contain.
type Row<'a> = (&'a [&'a str], i32, &'a str);

#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn bad_input_is_named_and_locks_nothing() -> Result<()> {
    let harness = Harness::file()?;
    let (long, label) = ("k".repeat(600), "x".repeat(129));
    let rows: &[Row] = &[
        (&["run", "", "--", "true"], 64, "key"),
        (&["run", &long, "--", "true"], 64, "512"),
        (&["run", "k", "--ttl", "5", "--", "true"], 64, "5s, 5m or 5h"),
        (&["run", "--ttl", "5", "k", "--", "true"], 64, "5s, 5m or 5h"),
        (&["run", "--attempts", "2", "k", "--", "true"], 64, "--tick"),
        (&["run", "--loop", "k", "--", "true"], 64, "--tick"),
        (&["run", "--retry-after", "1s", "k", "--", "true"], 64, "--tick"),
        (&["run", "--tick", "* * *", "k", "--", "true"], 64, "cron expression"),
        (&["run", "--tick", "0 0 31 2 *", "k", "--", "true"], 64, "never due"),
        (&["run", "--tick", "* * * * *", "--tz", "Europe/No", "k", "--", "true"], 64, "zone"),
        (&["run", "--tick", "* * * * *", "--tz", "localtime", "k", "--", "true"], 64, "IANA"),
        (&["run", "--tick", "0 0 0 1 1 * 2027", "k", "--", "true"], 64, "six with the seconds"),
        (&["tick", "k", "--tick", "* * * * *", "--tz", "Factory"], 64, "IANA"),
        (&["export", "--tick", "k=* * * * *", "--tick", "k=0 0 * * *"], 64, "twice"),
        (&["export", "--tick", "\u{e9}=* * * * *", "--tick", "e\u{301}=* * * * *"], 64, "twice"),
        (&["run", "--tick", "* * * * *", "--attempts", "1000", "k", "--", "true"], 64, "1..=999"),
        (&["run", "--tick", "* * * * *", "--wait", "1s", "k", "--", "true"], 64, "cannot be used"),
        (&["run", "--tick", "* * * * *", "--permits=2", "k", "--", "true"], 64, "cannot be used"),
        (&["run", "--ride-out", "101years", "k", "--", "true"], 64, "at most 100 years"),
        (&["run", "-w", "1d 1h 1s 234ms", "--ttl", "200years", "k", "--", "true"], 64, "TTL"),
        (&["run", "--holder", &label, "k", "--", "true"], 64, "128"),
        (&["run", "--note", &label, "k", "--", "true"], 64, "128"),
        (&["acquire", "--note", &label, "k", "--json"], 64, "128"),
        (&["acquire", "--holder", "a\u{202e}b", "k", "--json"], 64, "invisible"),
        (&["acquire", "k"], 64, "--save"),
        (&["acquire", "k", "--save", "-"], 64, "--json"),
        (&["acquire", "k", "--json", "--save", "a"], 64, "cannot be used with"),
        (&["acquire", "k", "--json", "--ttl", "0s"], 64, "TTL"),
        (&["extend"], 64, "--from"),
        (&["extend", "--from", "/no/such/file"], 64, "/no/such/file cannot be read"),
        (&["release", "--force"], 64, "--from"),
        (&["release", "k", "--from", "a"], 64, "cannot be used with"),
        (&["release", "--force", "--from", "a"], 64, "cannot be used with"),
        (&["release", "--holder", "a"], 64, "--force"),
        (&["release", "--holder", "", "--force"], 64, "an empty label"),
        (&["run", "--ttl", "1x", "k", "--", "true"], 64, "500ms, 90s"),
        (&["run", "--ttl", "0s", "k", "--", "true"], 64, "TTL"),
        (&["run", "--at-least", "0s", "k", "--", "true"], 64, "minimum hold"),
        (&["run", "--max-hold", "0s", "k", "--", "true"], 64, "cap on the hold"),
        (&["run", "--grace", "580000000000years", "k", "--", "true"], 64, "at most 100 years"),
        (&["run", "--permits", "0", "k", "--", "true"], 64, "1..=1024"),
        (&["run", "--permits", "1025", "k", "--", "true"], 64, "1..=1024"),
        (&["run", "--shared=65", "k", "--", "true"], 64, "1..=64"),
        (&["run", "--shared", "8", "k", "--", "true"], 64, "--shared=8 KEY"),
        (&["run", "--exclusive", "8", "k", "--", "true"], 64, "--exclusive=8 KEY"),
        (&["run", "--shared", "--exclusive", "k", "--", "true"], 64, "cannot be used with"),
        (&["run", "--shared", "--permits", "2", "k", "--", "true"], 64, "cannot be used with"),
        (&["run", "--exclusive", "--max-hold", "2s", "k", "--", "true"], 64, "cannot be used with"),
        (&["run", "--on-lost", "cry", "k", "--", "true"], 64, "term, kill, ignore"),
        (&["run", "-n", "--wait", "1s", "k", "--", "true"], 64, "cannot be used with"),
        (&["run", "-E", "256", "k", "--", "true"], 64, "0..=255"),
        (&["run", "k"], 64, "<COMMAND>"),
        (&["run", "--", "env", "true"], 64, "run KEY -- COMMAND"),
        (&["run", "-n", "-w1s", "--", "env", "true"], 64, "cannot be used with"),
        (
            &["--quiet", "run", "--ttl", "1m", "--", "env", "x", "--", "true"],
            64,
            "run KEY -- COMMAND",
        ),
        (&["run", "k", "--", "no-such-command-7"], 127, "there is no such command"),
        (&["run", "k", "echo a; echo b"], 127, "run KEY -- sh -c 'echo a; echo b'"),
        (&["run", "k", "./a.sh --all"], 127, "run KEY -- sh -c './a.sh --all'"),
        (&["run", "k", "echo 'x'"], 127, r"sh -c 'echo '\''x'\'''"),
        (&["run", "k", "-c", "echo a; echo b"], 127, "run KEY -- sh -c 'echo a; echo b'"),
        (&["run", "-c", "echo a", "k"], 64, "syncguard run KEY -- sh -c 'LINE'"),
        (&["run", "k", "--", "/no/such/command"], 127, "there is no such command"),
        (&["run", "k", "--", "/etc/passwd"], 126, "not executable"),
        (&["run", "k", "--", "/etc"], 126, "not executable"),
        (&["release", "k"], 64, "--force"),
        (&["status", "k", "--store", "hunter2:"], 64, "starts with"),
        (&["status", "k", "--store", "redis:/hunter2"], 64, "redis://"),
        (&["status", "k", "--store", "memory:"], 64, "sqlite:///path"),
        (&["status", "k", "--store", "redis://h?pasword=hunter2"], 64, "is not known"),
        (&["status", "k", "--store", "redis://h?sslmode=hunter2"], 64, "the parameter sslmode"),
        (&["status", "k", "--store", "postgres://me:hunter2@h:x/db"], 64, "percent-encoded"),
        (&["fence", "raise", "k", "--", "-1"], 64, "at most 15 digits"),
        (&["fence", "raise", "k", "x"], 64, "at most 15 digits"),
        (&["fence", "raise", "k", "900000000000001"], 64, "no counter passes"),
        (&["fence", "raise", "k", "9999999999999999"], 64, "at most 15 decimal digits"),
        (&["fence", "find", "1234567"], 64, "24 digits"),
        (&["fence", "find", "not-a-hash"], 64, "24 digits"),
        (&["fence", "find", "0123456789012345678901234"], 64, "24 digits"),
        (&["watch", "k"], 64, "watch --json"),
        (&["watch", "--json", "pay*today"], 64, "only a * at the end"),
        (&["ls", "pay?"], 64, "only a * at the end"),
        (&["ls", "--longer-than", "5"], 64, "5s, 5m or 5h"),
        (&["export", "pay[0-9]"], 64, "only a * at the end"),
        (&["watch", "--json", "-i", "1ms"], 64, "100ms or more"),
        (&["doctor", "--rounds", "0"], 64, "1..=10000"),
        (&["copy-fences", "--store", "sqlite:a"], 64, "--from and --to"),
        (&["copy-fences"], 64, "SYNCGUARD_FROM"),
        (&["doctor", "sqlite:a", "--store-file", "b"], 64, "--store-file has no meaning here"),
        (&["-v", "-q", "status", "k"], 64, "cannot be used with"),
        (&["status", "k", "--store", "sqlite:///no/such/folder/locks.db"], 64, "folder"),
        (&["status", "k", "--store-file", "/no/such/file"], 64, "/no/such/file"),
        (&["status", "k", "--store", "sqlite:a", "--store-file", "b"], 64, "cannot be used with"),
        (&["status", "k", "--store", "redis://127.0.0.1:1"], 69, "no connection"),
        (&["frobnicate"], 64, "frobnicate"),
        (&[], 64, "Usage"),
    ];
    for (arguments, status, says) in rows {
        let done = harness.run(arguments)?;
        ensure!(
            done.status == *status && done.stderr.contains(says),
            "{arguments:?} {says}: {done:?}"
        );
        ensure!(done.stdout.is_empty(), "{arguments:?}: {done:?}");
        // Only a line for a shell is answered with one.
        ensure!(says.contains("sh -c") || !done.stderr.contains("sh -c"), "{done:?}");
        // Input that could be a secret is not repeated.
        ensure!(!done.stderr.contains("hunter2"), "{done:?}");
    }
    let mut command = harness.command(&["run", "k", "--", "true"]);
    let done = Finished::of(&command.env("SYNCGUARD_NOTE", "a\nb").output()?).expect(64)?;
    ensure!(done.stderr.contains("note"), "{done:?}");
    // Even the file was not created.
    let path = harness.url.trim_start_matches("sqlite://");
    ensure!(fs::metadata(path).is_err());
    Ok(())
}

#[test]
fn help_and_version_are_no_errors() -> Result<()> {
    let harness = Harness::file()?;
    for arguments in [&["--help"][..], &["-h"], &["run", "--help"], &["--version"]] {
        let done = harness.run(arguments)?.expect(0)?;
        ensure!(done.stdout.contains("syncguard") && done.stderr.is_empty(), "{done:?}");
        ensure!(!done.stdout.contains(&harness.url), "the help shows no URL: {done:?}");
    }
    let help = harness.run(&["run", "--help"])?.stdout;
    for (option, default) in [
        ("ttl", "30s"),
        ("on-lost", "term"),
        ("grace", "10s"),
        ("attempts", "1"),
        ("retry-after", "5s"),
        ("missed", "skip"),
    ] {
        let (_, text) = help.split_once(&format!("  --{option} <")).context(option)?;
        let (_, shown) = text.split_once("[default: ").context(option)?;
        ensure!(shown.starts_with(&format!("{default}]")), "--{option}: {shown}");
    }
    Ok(())
}

/// Nobody knows the lock of a command that cannot be started, so it is given back at once.
#[test]
fn a_command_that_cannot_be_started_keeps_no_lock() -> Result<()> {
    let (harness, mut unstarted) = (Harness::file()?, 0);
    for limit in 8..36 {
        let line = format!("ulimit -n {limit}; exec \"$0\" run k -- true");
        let mut shell = std::process::Command::new("bash");
        shell.args(["-c", &line, env!("CARGO_BIN_EXE_syncguard")]);
        let done = Finished::of(&shell.env("SYNCGUARD_STORE", &harness.url).output()?);
        unstarted += usize::from(done.stderr.contains("cannot be started"));
        ensure!(harness.is_free("k")?, "{limit}: {done:?}");
    }
    ensure!(unstarted > 0, "each command was started, or no lock was taken");
    Ok(())
}

/// A URL in a file wins over one in the environment, and is not shown.
#[test]
fn a_store_can_be_in_a_file() -> Result<()> {
    let harness = Harness::file()?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("store");
    // As some editors write it.
    fs::write(&path, format!("\u{feff}{}\r\n", harness.url))?;
    let path = path.display().to_string();
    let elsewhere = Harness::at("redis://me:hunter2@127.0.0.1:1".to_owned(), Some("hunter2"));
    elsewhere.run(&["run", "k", "--", "true"])?.expect(69)?;
    elsewhere.run(&["run", "--store-file", &path, "k", "--", "true"])?.expect(0)?;
    let output = elsewhere.command(&["status", "k"]).env("SYNCGUARD_STORE_FILE", &path).output()?;
    ensure!(output.status.success(), "{output:?}");

    // A password that every user can read causes a warning, unless a folder keeps the others out.
    let may = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode));
    let secret = folder.path().join("secret");
    for (url, of_file, of_folder, is_told) in [
        (&elsewhere.url, 0o644, 0o755, true),
        (&elsewhere.url, 0o640, 0o755, false),
        (&elsewhere.url, 0o644, 0o750, false),
        (&harness.url, 0o644, 0o755, false),
    ] {
        fs::write(&secret, url)?;
        may(&secret, of_file)?;
        may(folder.path(), of_folder)?;
        let file = secret.display().to_string();
        for arguments in [&["--store-file", &file, "status", "k"][..], &["status", "k"]] {
            let output =
                elsewhere.command(arguments).env("SYNCGUARD_STORE_FILE", &file).output()?;
            let said = elsewhere.checked(&output).stderr;
            ensure!(
                said.contains("visible to every user") == is_told,
                "{of_file:o} {of_folder:o}: {said}"
            );
            ensure!(!is_told || said.contains(&file) && said.contains("chmod 600"), "{said}");
        }
    }

    // A password on the command line causes a warning.
    let done = harness.run(&["status", "k", "--store", &elsewhere.url])?.expect(69)?;
    ensure!(done.stderr.contains("visible to every user"), "{done:?}");
    ensure!(!done.stderr.contains("hunter2"), "{done:?}");
    Ok(())
}

/// Without this check the runtime would panic.
#[test]
fn too_few_files_that_can_be_open_are_an_error() -> Result<()> {
    for limit in 4..12 {
        // Files that other threads of this program have open may be passed on to the shell.
        let closed =
            "exec 3>&-; exec 4>&-; exec 5>&-; exec 6>&-; exec 7>&-; exec 8>&-; exec 9>&-; ";
        let command =
            format!("{closed}ulimit -n {limit}; exec \"$0\" --store sqlite:/no/such/folder ls");
        let mut shell = std::process::Command::new("bash");
        shell.args(["-c", &command, env!("CARGO_BIN_EXE_syncguard")]);
        let Finished { status, stderr: said, .. } = Finished::of(&shell.output()?);
        ensure!(!said.contains("panicked") && said.starts_with("syncguard: "), "{limit}: {said}");
        ensure!((64..80).contains(&status), "{limit}: {said}");
        let is_named = status == 71 && said.contains("too few files can be open");
        ensure!(limit > 4 || is_named, "three of them are open: {said}");
    }
    Ok(())
}
