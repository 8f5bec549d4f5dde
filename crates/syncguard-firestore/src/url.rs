//! Reads connection URLs: the database and the options of this library.

use syncguard_core::LockError;
use syncguard_core::authoring::backend_url::{BackendUrl, set};

use crate::config::FirestoreOptions;
use crate::names::{DEFAULT_DATABASE, are_names};

/// The options of this library, as documented at [`FirestoreBackend::connect`](crate::FirestoreBackend::connect).
const OPTIONS: &[&str] = &[
    "cleanup_in_is_locked",
    "collection",
    "conflict_retries",
    "connect_timeout_ms",
    "dispose_timeout_ms",
    "emulator",
    "fence_collection",
    "holder",
    "note",
    "operation_timeout_ms",
    "remembered_locks",
    "remote_emulator",
    "request_timeout_ms",
    "strict_clock",
];

/// Reads a URL; its options win over these.
pub(crate) fn parse(url: &str, options: FirestoreOptions) -> Result<FirestoreOptions, LockError> {
    let url = BackendUrl::parse(url)?;
    let (project, database) = database(url.base())?;
    url.expect_only(&[OPTIONS], &[])?;
    with_parameters(options.with_project(project).with_database(database), &url)
}

/// Returns project and database of `firestore://project/database`; the database may be missing.
fn database(base: &str) -> Result<(&str, &str), LockError> {
    base.strip_prefix("firestore://")
        .map(|rest| rest.split_once('/').unwrap_or((rest, "")))
        .map(|(project, database)| match database {
            "" => (project, DEFAULT_DATABASE),
            database => (project, database),
        })
        .filter(|(project, database)| are_names(project, database))
        .ok_or_else(|| {
            LockError::invalid_argument(
                "the URL cannot be read; it looks like firestore://project or firestore://project/database",
            )
        })
}

fn with_parameters(
    mut options: FirestoreOptions,
    url: &BackendUrl<'_>,
) -> Result<FirestoreOptions, LockError> {
    options.common.read_url(url)?;
    set(&mut options.collection, url.text("collection")?);
    set(&mut options.fence_collection, url.text("fence_collection")?);
    set(&mut options.conflict_retries, url.number("conflict_retries", 0..=u32::MAX)?);
    set(&mut options.emulator, url.text("emulator")?.map(Some));
    set(&mut options.remote_emulator, url.flag("remote_emulator")?);
    Ok(options)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use syncguard_core::ErrorCode;

    use super::*;

    fn read(url: &str) -> Result<FirestoreOptions, LockError> {
        parse(url, FirestoreOptions::new())
    }

    fn refusal(url: &str) -> String {
        let error = read(url).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error}");
        error.message().to_owned()
    }

    #[test]
    fn urls_have_a_project_and_may_have_a_database() {
        for (url, expected) in [
            ("firestore://p", ("p", "(default)")),
            ("firestore://p/", ("p", "(default)")),
            ("firestore://p?strict_clock=true", ("p", "(default)")),
            ("firestore://my-project-1/(default)", ("my-project-1", "(default)")),
            ("firestore://example.com:p/locks?strict_clock=true", ("example.com:p", "locks")),
        ] {
            let parsed = read(url).unwrap();
            let names = (parsed.project.as_deref(), parsed.database.as_str());
            assert_eq!(names, (Some(expected.0), expected.1));
        }
        for url in ["", "p", "http://p", "firestore://", "firestore:///d", "firestore://p/d/e"] {
            assert!(refusal(url).contains("firestore://project"), "{url}");
        }
    }

    #[test]
    fn every_option_can_be_set() {
        let url = "firestore://p/d?cleanup_in_is_locked=true&collection=l&conflict_retries=0\
                   &connect_timeout_ms=10&dispose_timeout_ms=20&emulator=localhost:8080&fence_collection=f\
                   &operation_timeout_ms=40&remembered_locks=0&remote_emulator=true\
                   &request_timeout_ms=30&strict_clock=true&holder=a%20b&note=";
        let millis = Duration::from_millis;
        let expected = FirestoreOptions::new()
            .with_project("p")
            .with_database("d")
            .with_cleanup_in_is_locked(true)
            .with_collection("l")
            .with_conflict_retries(0)
            .with_connect_timeout(millis(10))
            .with_dispose_timeout(millis(20))
            .with_holder("a b")
            .with_note("")
            .with_emulator("localhost:8080")
            .with_fence_collection("f")
            .with_operation_timeout(millis(40))
            .with_remembered_locks(0)
            .with_remote_emulator(true)
            .with_request_timeout(millis(30))
            .with_strict_clock(true);
        assert_eq!(format!("{:?}", read(url).unwrap()), format!("{expected:?}"));
        // The URL above has all options.
        assert!(OPTIONS.iter().all(|name| url.contains(&format!("{name}="))));
    }

    #[test]
    fn the_url_wins_and_leaves_the_rest() {
        let code = FirestoreOptions::new().with_collection("code").with_strict_clock(true);
        let options = parse("firestore://p?collection=url", code).unwrap();
        assert_eq!((options.collection.as_str(), options.common.strict_clock), ("url", true));
    }

    #[test]
    fn bad_parameters_are_refused_with_what_is_allowed() {
        for (url, says) in [
            ("firestore://p?collections=x", "allowed are: cleanup_in_is_locked, collection,"),
            ("firestore://p?collection=x&collection=y", "collection more than once"),
            ("firestore://p?request_timeout_ms=0", "from 1 to 3153600000000"),
            ("firestore://p?strict_clock=yes", "true or false"),
            ("firestore://p\n", "white space"),
        ] {
            assert!(refusal(url).contains(says), "{url}: {}", refusal(url));
        }
    }

    #[test]
    fn every_parameter_is_in_the_docs() {
        let docs = include_str!("backend.rs");
        assert!(OPTIONS.iter().all(|name| docs.contains(&format!("/// | `{name}` |"))));
    }
}
