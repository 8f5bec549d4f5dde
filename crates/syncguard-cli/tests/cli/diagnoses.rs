//! Messages about lost and unavailable locks lead to the cause.

use std::fs;

use anyhow::{Context as _, Result, ensure};
use syncguard_test_services::etcd::EtcdCluster;
use syncguard_test_services::postgres::{Authentication, PostgresServer};
use syncguard_test_services::redis::RedisServer;

use crate::harness::Harness;

const SLEEPER: &[&str] = &["--", "sh", "-c", "echo ready; exec sleep 1000"];

/// If the store lost its data, the message is the same as for a lock that was taken away.
#[test]
fn a_store_that_forgot_its_data() -> Result<()> {
    let server = RedisServer::start()?;
    let harness = Harness::at(server.url(), None);
    let mut running = harness.start(&[&["run", "--ttl", "2s", "k"][..], SLEEPER].concat())?;
    ensure!(running.line()? == "ready");
    server.cli(&["FLUSHALL"])?;
    let done = running.ended()?.expect(76)?;
    for cause in ["no longer knows the lock", "released by hand", "taken over", "lost its data"] {
        ensure!(done.stderr.contains(cause), "{cause}: {done:?}");
    }
    // The same message comes if the command ends before the loss is noticed.
    let script = format!("redis-cli -p {} FLUSHALL", server.port());
    let done = harness.run(&["run", "k", "--", "sh", "-c", &script])?.expect(76)?;
    ensure!(done.stderr.contains("no longer knows the lock"), "{done:?}");
    // A job that is done has its own status, also if the store goes away before the lock is given back.
    let script = format!("redis-cli -p {} SHUTDOWN NOSAVE; exit 3", server.port());
    let done = harness.run(&["run", "k", "--", "sh", "-c", &script])?.expect(3)?;
    ensure!(done.stderr.contains("could not be given back"), "{done:?}");
    Ok(())
}

/// The message names a lock file that was deleted or replaced.
#[test]
fn a_lock_file_that_is_gone() -> Result<()> {
    for is_replaced in [false, true] {
        let harness = Harness::file()?;
        let path = harness.url.trim_start_matches("sqlite://").to_owned();
        let mut running = harness.start(&[&["run", "--ttl", "2s", "k"][..], SLEEPER].concat())?;
        ensure!(running.line()? == "ready");
        for end in ["", "-wal", "-shm"] {
            fs::remove_file(format!("{path}{end}"))?;
        }
        if is_replaced {
            harness.run(&["run", "other", "--", "true"])?.expect(0)?;
        }
        let done = running.ended()?.expect(76)?;
        let how = if is_replaced { "was replaced" } else { "is gone" };
        ensure!(done.stderr.contains(&format!("{path} {how}")), "{how}: {done:?}");
    }
    // A job that ends before the loss is noticed may have run beside another holder.
    let harness = Harness::file()?;
    let script = format!("rm {}*", harness.url.trim_start_matches("sqlite://"));
    harness.run(&["run", "k", "--", "sh", "-c", &script])?.expect(76)?;
    Ok(())
}

/// With the new password in the store file, the server gets it as well, and cuts all connections: holders and loops go on.
/// Without it, the loss says why, and no command waits for a better password.
fn rotates(url: impl Fn(&str) -> String, changes: impl Fn(&str) -> Result<()>) -> Result<()> {
    let file = tempfile::NamedTempFile::new()?;
    let store = file.path().to_str().context("UTF-8")?;
    let harness = Harness::at("redis://unused.invalid".to_owned(), Some("hunter2"));
    let start =
        |options: &[&str]| harness.start(&[&["--store-file", store, "run"][..], options].concat());
    fs::write(store, url("hunter2-1"))?;
    let holds = ["k", "--", "sh", "-c", "echo held; read -r end; exit 0"];
    let mut holder = start(&[&["--ttl", "9s"], &holds[..]].concat())?;
    ensure!(holder.line()? == "held");
    let ticks = ["--loop", "--tick", "* * * * * *", "t", "--", "sh", "-c", "date +%s"];
    let mut looping = start(&ticks)?;
    let before = looping.numbers()?[0];
    fs::write(store, format!("{}\n", url("hunter2-2")))?;
    changes("hunter2-2")?;
    // Longer than the lock lives without a renewal.
    while looping.numbers()?[0] < before + 11 {}
    looping.signal(rustix::process::Signal::TERM)?;
    looping.ended()?.expect(0)?;
    holder.end()?.expect(0)?;

    let mut holder = start(&[&["--ttl", "6s"], &holds[..]].concat())?;
    ensure!(holder.line()? == "held");
    changes("hunter2-3")?;
    let lost = holder.ended()?.expect(76)?;
    ensure!(lost.stderr.contains("in time: ") && lost.stderr.contains("refused the "), "{lost:?}");
    let refused = start(&["--ride-out", "10m", "k", "--", "true"])?.ended()?.expect(77)?;
    ensure!(refused.stderr.contains("refused the "), "{refused:?}");
    Ok(())
}

#[test]
fn a_new_password_in_the_store_file_of_redis() -> Result<()> {
    let server = RedisServer::start()?;
    let set = |password: &str| {
        let password = format!(">{password}");
        server.cli(&["ACL", "SETUSER", "app", "on", "resetpass", &password, "~*", "&*", "+@all"])
    };
    set("hunter2-1")?;
    let url = |password: &str| format!("redis://app:{password}@127.0.0.1:{}", server.port());
    rotates(url, |password| {
        set(password)?;
        server.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).map(drop)
    })
}

#[test]
fn a_new_password_in_the_store_file_of_postgres() -> Result<()> {
    let server = PostgresServer::builder().authentication(Authentication::Scram).start()?;
    server.psql("CREATE ROLE app LOGIN PASSWORD 'hunter2-1'")?;
    server.psql("GRANT CREATE ON SCHEMA public TO app")?;
    let at = format!("127.0.0.1:{}/postgres?setup_schema=true", server.port());
    rotates(
        |password| format!("postgres://app:{password}@{at}"),
        |password| {
            server.psql(&format!("ALTER ROLE app PASSWORD '{password}'"))?;
            let ends =
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'";
            server.psql(ends).map(drop)
        },
    )
}

/// etcd has no connections of users: the new password ends the tokens of the old one.
#[test]
fn a_new_password_in_the_store_file_of_etcd() -> Result<()> {
    let server = EtcdCluster::start(1)?;
    server.enable_users("hunter2-root")?;
    let user = |password: &str| format!(r#"{{"name":"app","password":"{password}"}}"#);
    server.post_as_root("auth/user/add", &user("hunter2-1"))?;
    server.post_as_root("auth/user/grant", r#"{"user":"app","role":"root"}"#)?;
    let url = |password: &str| format!("etcd://app:{password}@127.0.0.1:{}", server.port(0));
    rotates(url, |password| server.post_as_root("auth/user/changepw", &user(password)).map(drop))
}

/// A command that asks for the lock that it runs under would wait for itself.
#[test]
fn a_lock_that_the_command_runs_under() -> Result<()> {
    let harness = Harness::file()?;
    let own = env!("CARGO_BIN_EXE_syncguard");
    for (arguments, status, is_own) in [
        ("run --no-wait k -- true", 64, true),
        ("run k -- true", 64, true),
        ("acquire k --json", 64, true),
        ("run --no-wait other -- true", 0, false),
        ("run --no-wait --permits 1 k -- true", 0, false),
        // A plain lock within a part of another lock is no part, and no tick.
        (
            "run --tick '0 0 29 2 *' --max-lateness 9years t -- $0 run --shared a -- $0 run b -- sh -c \
             'test -z \"$SYNCGUARD_SHARING$SYNCGUARD_SLOT$SYNCGUARD_TICK$SYNCGUARD_ATTEMPT\"'",
            0,
            false,
        ),
        // The holder has lost the lock, as for a process that outlives its `syncguard run`.
        ("release k --force >/dev/null; $0 run k -- true", 76, false),
        (
            "release k --force >/dev/null; $0 acquire k --json >/dev/null; $0 run -n k -- true; \
             $0 release k --force >/dev/null",
            76,
            false,
        ),
    ] {
        let script = format!("$0 {arguments}");
        let done = harness.run(&["run", "k", "--", "sh", "-c", &script, own])?.expect(status)?;
        ensure!(
            done.stderr.contains("already runs under this lock") == is_own,
            "{arguments}: {done:?}"
        );
    }
    Ok(())
}

/// Messages name no modules and types of the library.
#[test]
fn words_of_the_shell() -> Result<()> {
    let server = RedisServer::start()?;
    let harness = Harness::at(server.url(), None);
    let done = harness.run(&["-v", "run", "k", "--", "true"])?.expect(0)?;
    ensure!(
        done.stderr.starts_with("syncguard: warning: locks on this Redis server are at risk"),
        "{done:?}"
    );
    ensure!(!done.stderr.contains("::") && !done.stderr.contains("DurabilityReport"), "{done:?}");
    // Modules of the library are shown with -vv, for a report of a defect.
    let done = harness.run(&["-vv", "run", "k", "--", "true"])?.expect(0)?;
    ensure!(done.stderr.contains("syncguard_redis::durability"), "{done:?}");
    Ok(())
}
