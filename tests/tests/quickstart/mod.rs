//! The quickstart, run like its users do, on each store.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context as _, Result, ensure};
use syncguard_test_services::ports;
use syncguard_test_services::redis::RedisServer;
use syncguard_test_services::store::Store;

/// The same source as the example of the facade.
const QUICKSTART: &str = env!("CARGO_BIN_EXE_example-quickstart");

#[test]
fn without_a_url_in_memory() -> Result<()> {
    shows_what_locks_are_for("memory", quickstart().output()?)
}

#[test]
fn on_each_store_by_environment() -> Result<()> {
    for store in Store::ALL {
        let running = store.start()?;
        let url = store.with_timeouts(running.url("quick"), 20_000);
        shows_what_locks_are_for(store.name(), quickstart().env("SYNCGUARD_STORE", url).output()?)
            .with_context(|| store.name())?;
    }
    Ok(())
}

/// The options of the URL take effect, and its password shows nowhere.
#[test]
fn on_redis_by_argument() -> Result<()> {
    let server = RedisServer::builder().password("hunter2").start()?;
    let url = format!("{}?key_prefix=quick&operation_timeout_ms=20000", server.url());
    shows_what_locks_are_for("redis", quickstart().arg(url).output()?)?;
    ensure!(server.cli(&["KEYS", "quick:fence:quick:*"])?.lines().count() == 4);
    Ok(())
}

/// The server's certificate is verified with the named authority, and with no other.
#[test]
fn on_redis_over_tls() -> Result<()> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("quickstart-tls");
    fs::create_dir_all(&folder)?;
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let (certificate, key) = (folder.join("server.crt"), folder.join("server.key"));
    fs::write(&certificate, made.cert.pem())?;
    fs::write(&key, made.signing_key.serialize_pem())?;
    let port = ports::free()?;
    let _server = RedisServer::builder()
        .config(&format!("tls-port {port}"))
        .config(&format!("tls-cert-file {}", certificate.display()))
        .config(&format!("tls-key-file {}", key.display()))
        .config("tls-auth-clients no")
        .start()?;
    let url = format!("rediss://localhost:{port}?operation_timeout_ms=20000");
    let trusting = quickstart().arg(&url).env("SSL_CERT_FILE", &certificate).output()?;
    shows_what_locks_are_for("redis", trusting)?;

    let strange = quickstart().arg(&url).output()?;
    let said = String::from_utf8_lossy(&strange.stderr).into_owned();
    ensure!(!strange.status.success() && said.contains("is not signed by an authority"), "{said}");
    let nobody = quickstart().arg(&url).env("SSL_CERT_FILE", folder.join("none")).output()?;
    let said = String::from_utf8_lossy(&nobody.stderr).into_owned();
    ensure!(!nobody.status.success() && said.contains("SSL_CERT_FILE"), "{said}");
    Ok(())
}

/// Three processes, one of which is killed during its work: the others get their turns, one after the other.
#[test]
fn across_processes_without_a_server() -> Result<()> {
    let output = Command::new(env!("CARGO_BIN_EXE_example-processes")).output()?;
    let said = String::from_utf8(output.stdout)?;
    ensure!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let fences: Vec<&str> = said
        .lines()
        .filter_map(|line| line.split_once(" works     fence ").map(|(_, fence)| fence))
        .collect();
    ensure!(fences == ["000000000000001", "000000000000002", "000000000000003"], "{said}");
    ensure!(said.contains("ann is killed") && !said.contains("ann is done"), "{said}");
    ensure!(said.contains("bob is done") && said.contains("cat is done"), "{said}");
    Ok(())
}

fn quickstart() -> Command {
    let mut command = Command::new(QUICKSTART);
    // Variables that the machine may have set.
    for variable in ["SYNCGUARD_STORE", "FIRESTORE_EMULATOR_HOST", "SSL_CERT_FILE", "SSL_CERT_DIR"]
    {
        command.env_remove(variable);
    }
    command
}

/// The output on any machine, however slow: with such short TTLs, a lock may expire early.
fn shows_what_locks_are_for(backend: &str, output: Output) -> Result<()> {
    let said = String::from_utf8(output.stdout)?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{said}{errors}");
    ensure!(said.contains(&format!("on the backend `{backend}`")), "{said}");
    // One worker after the other, each under a higher fence.
    let fences: Vec<&str> = said
        .lines()
        .filter_map(|line| line.split_once(" starts    fence ").map(|(_, fence)| fence))
        .collect();
    ensure!(fences.len() == 3 && fences.is_sorted_by(|one, next| one < next), "{said}");
    ensure!(said.contains(": accepted") && said.contains("a newer holder has written"), "{said}");
    ensure!(said.contains("the work hears of it: "), "{said}");
    ensure!(!said.contains("hunter2") && !errors.contains("hunter2"), "{said}{errors}");
    Ok(())
}
