//! Reads connection URLs: the bucket, the prefix and the options of this library.

use syncguard_core::LockError;
use syncguard_core::authoring::backend_url::{BackendUrl, percent_decoded, set};

use crate::config::ObjectStoreOptions;

/// The options of this library, as documented at [`ObjectStoreBackend::connect`](crate::ObjectStoreBackend::connect).
const OPTIONS: &[&str] = &[
    "anonymous",
    "cleanup_in_is_locked",
    "connect_timeout_ms",
    "dispose_timeout_ms",
    "emulator",
    "endpoint",
    "holder",
    "note",
    "operation_timeout_ms",
    "region",
    "remembered_locks",
    "request_timeout_ms",
    "strict_clock",
    "strict_conditions",
];

/// Reads a URL; its options win over these.
pub(crate) fn parse(
    url: &str,
    options: ObjectStoreOptions,
) -> Result<ObjectStoreOptions, LockError> {
    let url = BackendUrl::parse(url)?;
    url.expect_only(&[OPTIONS], &[])?;
    let mut options = place(url.base(), options).ok_or_else(|| {
        LockError::invalid_argument(
            "the URL cannot be read; it looks like s3://bucket/prefix, az://container/prefix or gs://bucket/prefix",
        )
    })?;
    options.common.read_url(&url)?;
    set(&mut options.endpoint, url.text("endpoint")?.map(Some));
    set(&mut options.emulator, url.text("emulator")?.map(Some));
    set(&mut options.region, url.text("region")?.map(Some));
    set(&mut options.is_anonymous, url.flag("anonymous")?);
    set(&mut options.strict_conditions, url.flag("strict_conditions")?);
    let address = options.endpoint.as_deref();
    if address.is_some_and(|it| !it.starts_with("http://") && !it.starts_with("https://")) {
        return Err(LockError::invalid_argument("endpoint begins with http:// or https://"));
    }
    if options.emulator.is_some() && options.scheme != "az" {
        return Err(LockError::invalid_argument(
            "emulator is for az:// URLs; s3:// and gs:// URLs take an endpoint, and anonymous=true",
        ));
    }
    let is_address = |it: &str| {
        let port = it.rsplit_once(':').filter(|(host, _)| !host.is_empty() && !it.contains('/'));
        port.is_some_and(|(_, port)| port.parse::<u16>().is_ok())
    };
    if options.emulator.as_deref().is_some_and(|it| !is_address(it)) {
        return Err(LockError::invalid_argument(
            "emulator is host:port, without http:// and without an account, as in emulator=127.0.0.1:10000",
        ));
    }
    if options.region.is_some() && options.scheme != "s3" {
        return Err(LockError::invalid_argument("region is for s3:// URLs"));
    }
    Ok(options)
}

/// Reads `s3://bucket/prefix`.
fn place(base: &str, mut options: ObjectStoreOptions) -> Option<ObjectStoreOptions> {
    let (scheme, rest) = base.split_once("://")?;
    options.scheme = ["s3", "az", "gs"].into_iter().find(|known| *known == scheme)?;
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.$".contains(c);
    if bucket.is_empty() || !bucket.chars().all(is_allowed) {
        return None;
    }
    bucket.clone_into(&mut options.bucket);
    if !prefix.is_empty() {
        options.prefix = percent_decoded(prefix)?;
    }
    Some(options)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use syncguard_core::ErrorCode;

    use super::*;

    fn read(url: &str) -> Result<ObjectStoreOptions, LockError> {
        parse(url, ObjectStoreOptions::new())
    }

    fn refusal(url: &str) -> String {
        let error = read(url).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error}");
        error.message().to_owned()
    }

    #[test]
    fn urls_have_a_bucket_and_may_have_a_prefix() {
        for (url, scheme, bucket, prefix) in [
            ("s3://b", "s3", "b", "syncguard"),
            ("s3://b/", "s3", "b", "syncguard"),
            ("az://locks-1/a/b", "az", "locks-1", "a/b"),
            ("gs://b.example.com/team%3Da?strict_clock=true", "gs", "b.example.com", "team=a"),
        ] {
            let read = read(url).unwrap();
            assert_eq!(
                (read.scheme, &*read.bucket, &*read.prefix),
                (scheme, bucket, prefix),
                "{url}"
            );
        }
        let wrong = "b s3:b s3:// s3:///p s3a://b s3://b%2F s3://u:hunter2@b s3://b:9000/p http://b s3://b/%zz";
        for url in wrong.split(' ').chain([""]) {
            let says = refusal(url);
            assert!(
                says.contains("s3://bucket/prefix") && !says.contains("hunter2"),
                "{url}: {says}"
            );
        }
    }

    #[test]
    fn every_option_can_be_set() {
        let url = "az://b/p?cleanup_in_is_locked=true&connect_timeout_ms=10&dispose_timeout_ms=20\
                   &operation_timeout_ms=40&remembered_locks=0&request_timeout_ms=30&strict_clock=true\
                   &holder=a%20b&note=&anonymous=true&endpoint=http://h:1/x&emulator=h:2&strict_conditions=true";
        let millis = Duration::from_millis;
        let expected = ObjectStoreOptions {
            bucket: "b".to_owned(),
            scheme: "az",
            endpoint: Some("http://h:1/x".to_owned()),
            emulator: Some("h:2".to_owned()),
            is_anonymous: true,
            ..ObjectStoreOptions::new()
        }
        .with_prefix("p")
        .with_strict_conditions(true)
        .with_cleanup_in_is_locked(true)
        .with_connect_timeout(millis(10))
        .with_dispose_timeout(millis(20))
        .with_holder("a b")
        .with_note("")
        .with_operation_timeout(millis(40))
        .with_remembered_locks(0)
        .with_request_timeout(millis(30))
        .with_strict_clock(true);
        assert_eq!(format!("{:?}", read(url).unwrap()), format!("{expected:?}"));
        let others = OPTIONS.iter().filter(|name| **name != "region");
        assert!(others.clone().all(|name| url.contains(&format!("{name}="))));
        assert_eq!(read("s3://b?region=eu-1").unwrap().region.as_deref(), Some("eu-1"));
    }

    #[test]
    fn bad_parameters_are_refused_with_what_is_allowed() {
        for (url, says) in [
            ("s3://h?prefix=x", "allowed are: anonymous, cleanup_in_is_locked,"),
            ("s3://h?endpoint=h:1", "begins with http://"),
            ("s3://h?emulator=h:1", "az://"),
            ("az://h?emulator=http://h:1/devstoreaccount1", "host:port"),
            ("az://h?emulator=h", "host:port"),
            ("az://h?emulator=:1", "host:port"),
            ("gs://h?region=x", "s3://"),
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
