//! `syncguard doctor` on servers with bad settings.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, ensure};
use expect_test::{ExpectFile, expect_file};
use serde_json::Value;
use syncguard_test_services::etcd::EtcdCluster;
use syncguard_test_services::firestore::FirestoreEmulator;
use syncguard_test_services::postgres::{PgBouncer, PoolMode, PostgresServer};
use syncguard_test_services::redis::{AppendOnly, RedisCluster, RedisServer};
use syncguard_test_services::{install, ports, tools};

use crate::emulator::emulator_url;
use crate::harness::{Finished, Harness};
use crate::transcript::Transcript;

/// An expected finding: its level, its subject, and a part of its mend.
type Expected<'a> = (&'a str, &'a str, &'a str);

fn finds(url: &str, expected: &[Expected]) -> Result<()> {
    let harness = Harness::at(url.to_owned(), None);
    let status = if expected.iter().any(|(level, ..)| *level == "red") { 78 } else { 0 };
    let json = harness.run(&["doctor", "--json", "--rounds", "3"])?.expect(status)?.stdout;
    let text = harness.run(&["doctor", "--rounds", "3"])?.expect(status)?.stdout;
    for (level, about, mend) in expected {
        let words = format!("\"about\":\"{about}\",\"level\":\"{level}\"");
        ensure!(json.contains(&words), "{words}: {json}");
        ensure!(json.contains(mend), "{mend}: {json}");
        ensure!(text.contains(&format!("[{level:6}] {about}: ")), "{text}");
        ensure!(text.contains(mend), "{mend}: {text}");
    }
    ensure!(!text.contains('\u{1b}'), "no colours in a pipe");
    Ok(())
}

/// Compares both forms of the report with a file.
fn reports(url: &str, expected: &ExpectFile) -> Result<()> {
    let harness = Harness::at(url.to_owned(), None);
    let mut both = Transcript::on(&harness);
    both.run(&[&["doctor", "--rounds", "3"], &["doctor", "--rounds", "3", "--json"]])?;
    expected.assert_eq(&both.text);
    Ok(())
}

#[test]
fn redis() -> Result<()> {
    let safe = RedisServer::builder().append_only(AppendOnly::EverySecond).start()?;
    reports(&safe.url(), &expect_file!["snapshots/doctor_redis.txt"])?;
    safe.cli(&["SET", "cache:1", "x"])?;
    finds(&safe.url(), &[("yellow", "database", "-flushdb -flushall")])?;
    Harness::at(safe.url(), None).run(&["doctor", "--strict"])?.expect(78)?;
    safe.cli(&["CONFIG", "SET", "min-replicas-to-write", "2"])?;
    finds(&safe.url(), &[("red", "permissions", "lower min-replicas-to-write")])?;
    safe.cli(&["CONFIG", "SET", "min-replicas-to-write", "0"])?;

    let rights = "~* &* +@connection +info";
    let user = ["ACL", "SETUSER", "weak", "on", ">pass"].into_iter().chain(rights.split(' '));
    safe.cli(&user.collect::<Vec<_>>())?;
    let weak = format!("redis://weak:pass@127.0.0.1:{}", safe.port());
    finds(&weak, &[("red", "permissions", "ACL SETUSER")])
}

/// A prefix without a hash tag is spread over shards, and a prefix with a tag is on one master. A
/// single node of a cluster is refused if there is no tag.
#[test]
fn redis_cluster() -> Result<()> {
    let cluster = RedisCluster::start(3)?;
    for node in cluster.nodes() {
        node.cli(&["CONFIG", "SET", "appendonly", "yes"])?;
    }
    let untagged = ("green", "layout", "64 shards, spread over all masters");
    finds(&cluster.url(), &[untagged, ("green", "permissions", "")])?;
    let tagged = format!("{}&key_prefix=%7Bapp%7D", cluster.url());
    finds(&tagged, &[("green", "layout", "on the one master of that tag")])?;
    // One node without persistence puts locks at risk.
    cluster.nodes()[2].cli(&["CONFIG", "SET", "appendonly", "no"])?;
    finds(&cluster.url(), &[("red", "persistence", "CONFIG SET appendonly yes")])?;

    let node = cluster.nodes()[0].url();
    finds(&node, &[("red", "connect", "redis-cluster:// instead of redis://")])
}

#[test]
fn postgres() -> Result<()> {
    let server = PostgresServer::builder().config("fsync = off").start()?;
    finds(&server.url(), &[("red", "fsync", "ALTER SYSTEM SET fsync = on")])?;

    let server = PostgresServer::start()?;
    let url = format!("{}?setup_schema=true", server.url());
    reports(&url, &expect_file!["snapshots/doctor_postgres.txt"])?;
    server.psql("CREATE ROLE weak LOGIN")?;
    server.psql("GRANT SELECT ON ALL TABLES IN SCHEMA public TO weak")?;
    let weak = server.url().replace("postgres:", "weak:").replace("weak://", "postgres://");
    let grants = "GRANT INSERT, UPDATE, DELETE ON syncguard_locks TO weak; \
                  GRANT INSERT, UPDATE ON syncguard_fence_counters TO weak";
    finds(&weak, &[("red", "permissions", grants)])?;

    for mode in [PoolMode::Session, PoolMode::Transaction, PoolMode::Statement] {
        let pooler = PgBouncer::start(&server, mode)?;
        let signals = ("yellow", "signals", "connect past the pooler");
        let unprepared = format!("{}?unprepared_statements=true", pooler.url());
        if mode == PoolMode::Session {
            finds(&pooler.url(), &[signals])?;
            continue;
        }
        if pooler.keeps_prepared()? {
            finds(
                &pooler.url(),
                &[signals, ("green", "pooler", "needs no unprepared_statements")],
            )?;
            finds(&unprepared, &[("green", "pooler", "keeps prepared ones")])?;
        } else {
            finds(&pooler.url(), &[("red", "pooler", "unprepared_statements=true")])?;
            finds(&unprepared, &[signals, ("green", "pooler", "as the URL has it")])?;
        }
        let off = format!("{unprepared}&signals=false");
        let text = Harness::at(off, None).run(&["doctor", "--rounds", "3"])?.expect(0)?.stdout;
        ensure!(!text.contains("signals: "), "{text}");
    }
    Ok(())
}

#[test]
fn etcd() -> Result<()> {
    let one = EtcdCluster::start(1)?;
    finds(
        &one.url(),
        &[
            ("yellow", "members", "three members"),
            ("yellow", "history", "--auto-compaction-retention=1h"),
            ("green", "quota", ""),
            ("green", "clock", ""),
            ("green", "permissions", ""),
        ],
    )?;
    one.enable_users("hunter2")?;
    one.post_as_root("auth/user/add", r#"{"name":"me","password":"hunter2"}"#)?;
    let port = one.port(0);
    let url = format!("etcd://me:hunter2@127.0.0.1:{port}/apps/locks");
    let role = "grant-permission ROLE --prefix=true readwrite apps/locks/";
    finds(&url, &[("red", "permissions", role)])?;

    let three = EtcdCluster::builder().flag("--quota-backend-bytes=100000").start(3)?;
    let full =
        [("green", "members", ""), ("green", "history", ""), ("red", "quota", "alarm disarm")];
    Harness::at(three.url(), None).run(&["doctor", "--rounds", "300"])?;
    three.compact(three.leader()?)?;
    finds(&three.url(), &full)
}

/// A machine whose wall clock is wrong. The other clocks are right, and Firestore's decides.
#[test]
fn firestore() -> Result<()> {
    let server = FirestoreEmulator::start()?;
    let url = emulator_url(&server)?;
    reports(&url, &expect_file!["snapshots/doctor_firestore.txt"])?;
    let mut behind = Command::new(install::require(&tools::FAKETIME)?);
    behind.args(["-m", "--exclude-monotonic", "-f", "-5s", env!("CARGO_BIN_EXE_syncguard")]);
    let done = behind.args(["doctor", &url, "--json", "--rounds", "3"]).output()?;
    let report: Value = serde_json::from_str(&Finished::of(&done).expect(0)?.stdout)?;
    let findings = report["findings"].as_array().context("findings")?;
    let clock = findings.iter().find(|it| it["about"] == "clock").context("the clock")?;
    ensure!(clock["level"] == "green" && clock["mend"].is_null(), "{clock}");
    let words = clock["says"].as_str().context("a text")?;
    let millis = words.split(' ').find_map(|word| word.parse::<i64>().ok()).context("a number")?;
    // Half of a round trip to the emulator is uncertain.
    ensure!((millis - 5000).abs() < 2000 && words.contains("behind"), "{words}");
    Ok(())
}

/// A file system in memory does not survive a restart. Any other may be that of a container.
#[test]
fn sqlite() -> Result<()> {
    let folder = tempfile::tempdir_in("/dev/shm").context("/dev/shm is missing")?;
    let url = format!("sqlite://{}/locks.db", folder.path().display());
    reports(&url, &expect_file!["snapshots/doctor_sqlite.txt"])?;
    let memory = ("red", "file-system", "/var/lib");
    finds(
        &format!("{url}?synchronous=normal"),
        &[("yellow", "synchronous", "synchronous=normal"), memory],
    )
}

/// A certificate that ends soon, and one that has ended, on each store that takes one.
#[test]
fn the_end_of_a_client_certificate() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name).display().to_string();
    let write = |name: &str, text: &str| -> Result<()> {
        fs::write(path(name), text)?;
        Ok(fs::set_permissions(path(name), fs::Permissions::from_mode(0o600))?)
    };
    let make = |name: &str, end: SystemTime| -> Result<()> {
        let mut params = rcgen::CertificateParams::new(["localhost".to_owned()])?;
        params.not_after = end.into();
        let key = rcgen::KeyPair::generate()?;
        write(name, &params.self_signed(&key)?.pem())?;
        write(&format!("{name}-key"), &key.serialize_pem())
    };
    let (now, day) = (SystemTime::now(), Duration::from_secs(86_400));
    make("server", now + 90 * day)?;
    let redis = ports::free()?;
    let _redis = RedisServer::builder()
        .append_only(AppendOnly::EverySecond)
        .config(&format!("tls-port {redis}\ntls-auth-clients no"))
        .config(&format!("tls-cert-file {0}\ntls-ca-cert-file {0}", path("server")))
        .config(&format!("tls-key-file {}", path("server-key")))
        .start()?;
    let (server, key) = (path("server"), path("server-key"));
    let etcd = EtcdCluster::builder().tls(server.as_ref(), key.as_ref()).start(1)?;
    // The finding is about the file, and this server speaks no TLS.
    let postgres = PostgresServer::start()?;
    for url in [
        format!("rediss://localhost:{redis}?sslrootcert={server}"),
        format!("{}?sslrootcert={server}", etcd.url()),
        format!("{}?setup_schema=true&sslmode=disable", postgres.url()),
    ] {
        for (level, mend, end) in [
            ("green", "", now + 30 * day),
            ("yellow", "put the next certificate", now + 13 * day),
            ("red", "put the next certificate", now - day),
        ] {
            make("client", end)?;
            let url = format!("{url}&sslcert={}&sslkey={}", path("client"), path("client-key"));
            finds(&url, &[(level, "certificate", mend)])?;
        }
    }
    Ok(())
}

/// A store that is away has the same status as with other commands, for scripts that wait for it.
#[test]
fn a_store_that_is_away() -> Result<()> {
    let harness = Harness::at("redis://127.0.0.1:1".to_owned(), None);
    harness.run(&["doctor"])?.expect(69)?;
    harness.run(&["doctor", "firestore://project?emulator=127.0.0.1:1"])?.expect(69)?;
    harness.run(&["doctor", "etcd://127.0.0.1:1"])?.expect(69)?;
    harness.run(&["doctor", "az://c?emulator=127.0.0.1:1"])?.expect(69)?;
    harness.run(&["doctor", "hunter2://x"])?.expect(78)?;
    Ok(())
}
