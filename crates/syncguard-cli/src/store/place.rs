//! Where the locks of a store are, as a text to compare and to show.

use std::fs;
use std::path::{Path, absolute};

use syncguard::authoring::backend_url::BackendUrl;

use super::url::{encoded, without_login, without_password};

/// The options of a URL that say where the records are. The others say how to reach them, and may
/// differ from one command to the next.
const OF_THE_PLACE: &[&str] = &[
    "collection",
    "dbname",
    "emulator",
    "endpoint",
    "fence_collection",
    "fence_table",
    "host",
    "hostaddr",
    "key_prefix",
    "lock_table",
    "node",
    "options",
    "port",
    "sentinelServiceName",
];

/// The URL without user, password and the options that do not say where the records are. A file is
/// named from the root, since the folder of the next command may be another one.
pub(super) fn of(url: &str, file: Option<&Path>) -> String {
    if let Some(file) = file {
        let file = fs::canonicalize(file).or_else(|_| absolute(file));
        let file = file.as_deref().ok().and_then(Path::to_str);
        return file.map_or_else(|| url.to_owned(), |file| format!("sqlite://{}", encoded(file)));
    }
    let mut url = without_login(url);
    for (name, same) in [("postgresql:", "postgres:"), ("valkey", "redis")] {
        if let Some(rest) = url.strip_prefix(name) {
            url = format!("{same}{rest}");
        }
    }
    let place = BackendUrl::parse(&url).map(|parsed| parsed.with_only(OF_THE_PLACE));
    place.unwrap_or_else(|_| without_password(&url))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_has_no_login_and_no_option_of_another_kind() {
        for (url, place) in [
            ("redis://me:hunter2@host/1?holder=a&key_prefix=app", "redis://host/1?key_prefix=app"),
            ("redis://:hunter2@host", "redis://host"),
            (
                "postgres://me:h@host/db?password=h&lock_table=a.b",
                "postgres://host/db?lock_table=a.b",
            ),
            ("valkeys://h?wait_replicas=1", "rediss://h"),
            ("postgresql:///d?host=/run", "postgres:///d?host=/run"),
            ("postgres://h/d?password=hunter2&x y", "postgres://h/d?x y"),
            ("etcds://me:hunter2@a:1,b/apps/x?strict_clock=true", "etcds://a:1,b/apps/x"),
            ("firestore://p/d?strict_clock=true", "firestore://p/d"),
        ] {
            assert_eq!(of(url, None), place);
        }
        let here = of("sqlite:a%20b.db", Some(Path::new("a b.db")));
        assert!(here.starts_with("sqlite:///") && here.ends_with("/a%20b.db"), "{here}");
    }
}
