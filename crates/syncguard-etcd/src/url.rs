//! Reads connection URLs: the members, the user, the prefix and the options of this library.

use syncguard_core::LockError;
use syncguard_core::authoring::backend_url::{BackendUrl, host_and_port, percent_decoded};

use crate::config::EtcdOptions;

/// The options of this library, as documented at [`EtcdBackend::connect`](crate::EtcdBackend::connect).
const OPTIONS: &[&str] = &[
    "cleanup_in_is_locked",
    "connect_timeout_ms",
    "dispose_timeout_ms",
    "holder",
    "note",
    "operation_timeout_ms",
    "remembered_locks",
    "request_timeout_ms",
    "sslcert",
    "sslkey",
    "sslrootcert",
    "strict_clock",
];

/// The port on which members serve clients.
const PORT: u16 = 2379;

/// Reads a URL; its options win over these.
pub(crate) fn parse(url: &str, options: EtcdOptions) -> Result<EtcdOptions, LockError> {
    let url = BackendUrl::parse(url)?;
    url.expect_only(&[OPTIONS], &[])?;
    let options = place(url.base(), options).ok_or_else(|| {
        LockError::invalid_argument(
            "the URL cannot be read; it looks like etcd://user:password@host1:2379,host2/prefix, with etcds for \
             TLS, and special characters in user, password and prefix are percent-encoded",
        )
    })?;
    with_parameters(options, &url)
}

/// Reads `etcd://user:password@host1:2379,host2/prefix`.
fn place(base: &str, mut options: EtcdOptions) -> Option<EtcdOptions> {
    let (scheme, rest) = base.split_once("://")?;
    options.scheme = match scheme {
        "etcd" => "http",
        "etcds" => "https",
        _ => return None,
    };
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let hosts = match authority.split_once('@') {
        None => authority,
        Some((login, hosts)) => {
            let (name, password) = login.split_once(':')?;
            let (name, password) = (percent_decoded(name)?, percent_decoded(password)?);
            options.user = (!name.is_empty()).then_some((name, password));
            options.user.as_ref()?;
            hosts
        }
    };
    let member = |text| {
        let (host, port) = host_and_port(text)?;
        Some((host.to_owned(), port.unwrap_or(PORT)))
    };
    options.members = hosts.split(',').map(member).collect::<Option<_>>()?;
    if !path.is_empty() {
        options.key_prefix = percent_decoded(path)?;
    }
    Some(options)
}

fn with_parameters(
    mut options: EtcdOptions,
    url: &BackendUrl<'_>,
) -> Result<EtcdOptions, LockError> {
    options.common.read_url(url)?;
    if !options.has_tls() {
        url.expect_no_tls("etcds")?;
    }
    // Without the feature, `connect` says that it is missing.
    #[cfg(feature = "tls")]
    options.tls.read_url(url)?;
    Ok(options)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use syncguard_core::ErrorCode;

    use super::*;

    fn read(url: &str) -> Result<EtcdOptions, LockError> {
        parse(url, EtcdOptions::new())
    }

    fn refusal(url: &str) -> String {
        let error = read(url).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error}");
        error.message().to_owned()
    }

    #[test]
    fn urls_have_members_and_may_have_a_user_and_a_prefix() {
        #[rustfmt::skip]
        let right = [
            ("etcd://h", &[("h", 2379)][..], None, "syncguard"),
            ("etcd://h/", &[("h", 2379)], None, "syncguard"),
            ("etcds://a:1,b,[::1],[::1]:3/p", &[("a", 1), ("b", 2379), ("[::1]", 2379), ("[::1]", 3)], None, "p"),
            ("etcd://u:p%40%2C@10.0.0.1//apps/%C3%A9?strict_clock=true", &[("10.0.0.1", 2379)], Some(("u", "p@,")), "/apps/é"),
            ("etcd://u:@h/a/b", &[("h", 2379)], Some(("u", "")), "a/b"),
        ];
        for (url, members, user, prefix) in right {
            let read = read(url).unwrap();
            let members: Vec<_> =
                members.iter().map(|(host, port)| ((*host).to_owned(), *port)).collect();
            assert_eq!(
                (read.has_tls(), read.members),
                (url.starts_with("etcds"), members),
                "{url}"
            );
            assert_eq!(read.user, user.map(|(u, p)| (u.to_owned(), p.to_owned())));
            assert_eq!(read.key_prefix, prefix);
        }
        let wrong = "h http://h etcd:h etcd:// etcd:///p etcd://h, etcd://h: etcd://h:0 etcd://h:65536 etcd://h:+1 \
                     etcd://a:1:2 etcd://::1 etcd://[::1 etcd://[h] etcd://h;x etcd://hunter2@h etcd://:hunter2@h \
                     etcd://u:%zz@h etcd://h/%zz etcd://bücher etcd://u:p@v:q@h";
        for url in wrong.split(' ').chain([""]) {
            let says = refusal(url);
            assert!(
                says.contains("etcd://user:password@host1") && !says.contains("hunter2"),
                "{url}"
            );
        }
    }

    #[test]
    fn every_option_can_be_set() {
        let url = "etcd://h/p?cleanup_in_is_locked=true&connect_timeout_ms=10&dispose_timeout_ms=20\
                   &operation_timeout_ms=40&remembered_locks=0&request_timeout_ms=30&strict_clock=true\
                   &holder=a%20b&note=";
        let millis = Duration::from_millis;
        let expected = EtcdOptions { members: vec![("h".to_owned(), 2379)], ..EtcdOptions::new() }
            .with_key_prefix("p")
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
        let others = OPTIONS.iter().filter(|name| !name.starts_with("ssl"));
        assert!(others.clone().all(|name| url.contains(&format!("{name}="))));
    }

    #[test]
    fn the_url_wins_and_leaves_the_rest() {
        let code = EtcdOptions::new().with_key_prefix("code").with_user("u", "p");
        let options = parse("etcd://h?strict_clock=true", code).unwrap();
        assert_eq!((options.key_prefix.as_str(), options.common.strict_clock), ("code", true));
        assert!(options.user.is_some());
    }

    #[test]
    fn bad_parameters_are_refused_with_what_is_allowed() {
        for (url, says) in [
            ("etcd://h?prefix=x", "allowed are: cleanup_in_is_locked, connect_timeout_ms,"),
            ("etcd://h?sslrootcert=x", "starts with etcds"),
            ("etcd://h?sslcert=x&sslkey=y", "sslcert of the URL needs TLS"),
        ] {
            assert!(refusal(url).contains(says), "{url}: {}", refusal(url));
        }
        #[cfg(feature = "tls")]
        assert!(refusal("etcds://h?sslcert=x").contains("needs both"));
    }

    #[test]
    fn every_parameter_is_in_the_docs() {
        let docs = include_str!("backend.rs");
        assert!(OPTIONS.iter().all(|name| docs.contains(&format!("/// | `{name}` |"))));
    }
}
