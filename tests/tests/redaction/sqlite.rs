//! SQLite, which reports only to the library.

use std::fs;
use std::sync::Mutex;
use std::time::Duration;

use rusqlite::{Connection, params};
use syncguard_core::LockBackend as _;
use syncguard_core::contract::AcquireRequest;
use syncguard_sqlite::{SqliteBackend, SqliteOptions, Synchronous};

use crate::net::Net;
use crate::scenario::{
    Change, Handles, OWN, all_fail, locks, nothing_was_given_away, refused, secret, suite,
};
use crate::watched::watched;

pub(crate) async fn says_nothing() {
    let net = Net::global();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("locks.db");
    let options = || {
        let options = SqliteOptions::new().with_operation_timeout(Duration::from_secs(2));
        options.with_synchronous(Synchronous::Normal)
    };

    let mut handles = Vec::new();
    for cleanup in [true, false, true] {
        let options = SqliteOptions::new().with_cleanup_in_is_locked(cleanup);
        handles.push(SqliteBackend::open_with(&path, options).await.expect("a backend"));
    }
    // Before the others are closed, because the last to close a file keeps others out for a moment.
    let backend = SqliteBackend::open_with(&path, options()).await.expect("a backend");
    let outside = Connection::open(&path).expect("a connection");
    outside.busy_timeout(Duration::from_secs(60)).expect("a timeout");
    let outside = Mutex::new(outside);
    let change = move |key: &str, change| {
        let outside = outside.lock().expect("no panic");
        let changed = match change {
            Change::Counter(last) => outside.execute(
                "INSERT INTO fences VALUES (?1, ?2)",
                params![key, last.get().cast_signed()],
            ),
            Change::Spoilt => outside.execute("UPDATE locks SET fence = -1 WHERE key = ?1", [key]),
        };
        changed.is_ok_and(|rows| rows == 1)
    };
    suite(Handles::new(handles, change)).await;
    net.read("a backend", &format!("{backend:?} {:?}", options()));
    let backend = watched(net, backend);
    locks(&backend).await;

    // A text in the wrong place of a URL may be a password, and so may a part of a path.
    let hidden = secret();
    for url in [
        format!("sqlite://{hidden}@host/locks.db"),
        format!("sqlite:{}/{hidden}/locks.db", folder.path().display()),
        format!("sqlite:{}?{hidden}=1", path.display()),
        format!("sqlite:{}?synchronous={hidden}", path.display()),
        format!("sqlite:%zz{hidden}"),
    ] {
        refused(SqliteBackend::connect(&url).await);
    }
    let foreign = folder.path().join(&hidden);
    fs::write(&foreign, "not a database, and longer than nothing at all".repeat(9))
        .expect("a file");
    refused(SqliteBackend::open(&foreign).await);

    // Another process writes, a trigger and a table are replaced, and then the file is removed.
    let raw = Connection::open(&path).expect("a connection");
    raw.execute_batch("BEGIN IMMEDIATE").expect("a transaction");
    let waits = AcquireRequest::new(secret(), Duration::from_secs(1)).expect("a request");
    refused(backend.acquire(waits).await);
    raw.execute_batch("ROLLBACK; ALTER TABLE locks RENAME TO elsewhere").expect("a change");
    all_fail(&backend).await;
    fs::remove_file(&path).expect("the file");
    all_fail(&backend).await;
    nothing_was_given_away(&OWN).await;
}
