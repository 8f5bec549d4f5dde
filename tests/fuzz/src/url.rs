//! URLs.

use syncguard_redis::{ErrorCode, LockError};

/// Any text, and any text around a password. The URL is accepted or refused with an error, and the password is not in
/// the error.
pub fn check_url(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    // The file would be read, and may be an endless device.
    if text.contains("sslrootcert") {
        return;
    }
    let secret = "Xq7ZkV";
    for scheme in [
        "redis",
        "rediss",
        "redis-cluster",
        "redis-sentinel",
        "postgres",
        "etcd",
        "firestore",
        "s3",
        "sqlite",
    ] {
        check(&format!("{scheme}:{text}"), None);
        check(&format!("{scheme}://u:{secret}{text}"), Some(secret));
        check(&format!("{scheme}://u:{secret}@h{text}"), Some(secret));
        check(&format!("{scheme}://h/x?password={secret}&{text}"), Some(secret));
    }
    check(text, None);
}

type Reader = fn(&str) -> Result<(), LockError>;

fn check(url: &str, secret: Option<&str>) {
    let readers: [Reader; 6] = [
        syncguard_redis::simulated::read_url,
        syncguard_postgres::simulated::read_url,
        syncguard_etcd::simulated::read_url,
        syncguard_firestore::simulated::read_url,
        syncguard_object_store::fuzzing::read_url,
        syncguard_sqlite::fuzzing::read_url,
    ];
    for read in readers {
        let Err(error) = read(url) else { continue };
        assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error}");
        let shown = format!("{error} {error:?}");
        assert!(secret.is_none_or(|secret| !shown.contains(secret)), "{shown}");
    }
}
