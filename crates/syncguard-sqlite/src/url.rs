//! Reads connection URLs: the path of the file and the options of this library.

use std::path::PathBuf;

use syncguard_core::LockError;
use syncguard_core::authoring::backend_url::{BackendUrl, set};

use crate::config::{SqliteOptions, Synchronous};

/// The options, as documented at [`SqliteBackend::connect`](crate::SqliteBackend::connect).
const OPTIONS: &[&str] = &[
    "cleanup_in_is_locked",
    "dispose_timeout_ms",
    "holder",
    "note",
    "operation_timeout_ms",
    "strict_durability",
    "synchronous",
];

/// Reads a URL; its options win over these.
pub(crate) fn parse(
    url: &str,
    options: SqliteOptions,
) -> Result<(PathBuf, SqliteOptions), LockError> {
    let url = BackendUrl::parse(url)?;
    if url.scheme() != "sqlite" {
        return Err(unreadable());
    }
    url.expect_only(&[OPTIONS], &[])?;
    let path = path(&url.after_scheme()?)?;
    Ok((path, with_parameters(options, &url)?))
}

fn path(after_scheme: &str) -> Result<PathBuf, LockError> {
    let path = match after_scheme.strip_prefix("//") {
        // A text between the second and the third slash would be the name of a machine.
        Some(path) if !path.starts_with('/') => return Err(unreadable()),
        Some(path) => path,
        None => after_scheme,
    };
    if path.is_empty() || path.contains('\0') {
        return Err(unreadable());
    }
    if path == ":memory:" {
        return Err(LockError::invalid_argument(
            "SQLite's :memory: is no store for locks; locks in the memory of one process are `memory:`",
        ));
    }
    Ok(PathBuf::from(path))
}

fn with_parameters(
    mut options: SqliteOptions,
    url: &BackendUrl<'_>,
) -> Result<SqliteOptions, LockError> {
    set(&mut options.cleanup_in_is_locked, url.flag("cleanup_in_is_locked")?);
    options.client.read_url(url)?;
    set(&mut options.operation_timeout, url.millis("operation_timeout_ms")?);
    set(&mut options.strict_durability, url.flag("strict_durability")?);
    match url.text("synchronous")?.as_deref() {
        None => {}
        Some("full") => options = options.with_synchronous(Synchronous::Full),
        Some("normal") => options = options.with_synchronous(Synchronous::Normal),
        Some(_) => {
            return Err(LockError::invalid_argument(
                "the parameter synchronous of the URL must be full or normal",
            ));
        }
    }
    Ok(options)
}

fn unreadable() -> LockError {
    LockError::invalid_argument(
        "the URL of a lock file is sqlite:///an/absolute/path or sqlite:a/relative/path, percent-encoded, \
         and options after a `?`",
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::*;

    fn parse(url: &str) -> Result<(PathBuf, SqliteOptions), LockError> {
        super::parse(url, SqliteOptions::new())
    }

    #[test]
    fn a_path_is_absolute_or_relative() {
        for (url, path) in [
            ("sqlite:///var/lib/app/locks.db", "/var/lib/app/locks.db"),
            ("sqlite:/var/lib/app/locks.db", "/var/lib/app/locks.db"),
            ("sqlite:locks.db", "locks.db"),
            ("sqlite:./a/locks.db?synchronous=full", "./a/locks.db"),
            ("sqlite:my%20locks%3F.db", "my locks?.db"),
            ("sqlite:///%C3%A9", "/é"),
        ] {
            assert_eq!(parse(url).unwrap().0, Path::new(path), "{url}");
        }
    }

    #[test]
    fn options_are_those_of_the_code() {
        let url = "sqlite:l?cleanup_in_is_locked=true&dispose_timeout_ms=70&operation_timeout_ms=80\
                   &strict_durability=true&synchronous=normal&holder=a%20b&note=c";
        let (_, options) = parse(url).unwrap();
        assert!(options.cleanup_in_is_locked && options.strict_durability);
        assert_eq!(options.client.dispose_timeout, Duration::from_millis(70));
        assert_eq!(options.operation_timeout, Duration::from_millis(80));
        assert_eq!(options.synchronous, Synchronous::Normal);
        assert_eq!(
            (options.client.holder.as_deref(), options.client.note.as_deref()),
            (Some("a b"), Some("c"))
        );
    }

    #[test]
    fn another_url_is_refused_without_being_shown() {
        for (url, says) in [
            ("hunter2", "sqlite:///an/absolute/path"),
            ("sqlite:", "sqlite:///an/absolute/path"),
            ("sqlite://", "sqlite:///an/absolute/path"),
            ("sqlite://hunter2/locks.db", "sqlite:///an/absolute/path"),
            ("sqlite::memory:", "`memory:`"),
            ("sqlite:a%00b", "sqlite:///an/absolute/path"),
            ("sqlite:hunter2%", "%25"),
            ("sqlite:l?hunter2=1", "allowed are: cleanup_in_is_locked"),
            ("sqlite:l?synchronous=hunter2", "full or normal"),
            ("sqlite:l?operation_timeout_ms=0", "from 1"),
        ] {
            let error = parse(url).unwrap_err();
            assert!(error.message().contains(says), "{url}: {error}");
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        }
    }
}
