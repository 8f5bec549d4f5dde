//! Each benchmark runs for a moment, on real servers, so that none of them is found broken only when its figures are wanted.

use std::process::Command;

fn run(program: &str, seconds: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(["--seconds", seconds]).args(arguments).output();
    let output = output.expect("a program");
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(output.status.success(), "{text}");
    text
}

#[test]
fn redis() {
    let text = run(env!("CARGO_BIN_EXE_redis"), "0.02", &[]);
    assert!(text.contains("256 at once"), "{text}");
}

#[test]
fn postgres() {
    let text = run(env!("CARGO_BIN_EXE_postgres"), "0.02", &[]);
    assert!(text.contains("64 at once, 1 ms added"), "{text}");
}

#[test]
fn etcd() {
    let text = run(env!("CARGO_BIN_EXE_etcd"), "0.02", &[]);
    assert!(text.contains("hand-over p50"), "{text}");
}

#[test]
fn firestore() {
    let text = run(env!("CARGO_BIN_EXE_firestore"), "0.02", &[]);
    assert!(text.contains("16 at once"), "{text}");
}

#[test]
fn sqlite() {
    let text = run(env!("CARGO_BIN_EXE_sqlite"), "0.02", &[]);
    assert!(text.contains("64 at once"), "{text}");
}

#[test]
fn waiting() {
    let text = run(env!("CARGO_BIN_EXE_waiting"), "0.3", &[]);
    assert_eq!(text.matches("crashed holder  ").count(), 2, "{text}");
}

#[test]
fn recipes() {
    let text = run(env!("CARGO_BIN_EXE_recipes"), "0.02", &["--set", "3"]);
    assert_eq!(text.matches("to take them").count(), 5, "{text}");
}

/// Without another state of the library, which would have to be built.
#[test]
fn cost() {
    let text = run(env!("CARGO_BIN_EXE_cost"), "0.02", &["--baseline", "none", "--locks", "20"]);
    for figure in [
        "redis, bytes of a counter",
        "postgres, extend: bytes of log",
        "etcd, a process that waits",
    ] {
        assert!(text.contains(figure), "{figure}: {text}");
    }
}
