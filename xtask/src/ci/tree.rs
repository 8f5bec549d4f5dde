//! The dependencies that a user's program builds: the dependencies of packages with the features that users turn on.

use std::collections::BTreeSet;

use anyhow::{Result, bail};

use crate::cargo::{cargo, output};

/// A package with some of its features, or all: its tree has the needed packages, else the other lists prove nothing, and
/// none of the banned ones.
struct Rule(
    &'static str,
    &'static str,
    &'static [&'static str],
    &'static [&'static [&'static str]],
);

const ALL: &str = "--all-features";

#[rustfmt::skip]
const RULES: &[Rule] = &[
    // Tasks, timers and channels, but no I/O, because a user's runtime would then need its drivers.
    Rule("syncguard-core", "serde", &[], &[REDIS, POSTGRES, BUCKET, GOOGLE, SQLITE, NETWORK, TLS]),
    Rule("syncguard-core", "tls", &[PROVIDER], &[REDIS, POSTGRES, BUCKET, GOOGLE, SQLITE, NETWORK, OTHER_TLS]),
    // The data may be behind any driver.
    Rule("syncguard-fenced", ALL, &["syncguard-core"], &[MEMORY, REDIS, POSTGRES, BUCKET, GOOGLE, SQLITE, NETWORK, TLS]),
    Rule("syncguard-memory", ALL, &[], &[REDIS, POSTGRES, BUCKET, GOOGLE, SQLITE, NETWORK, TLS]),
    Rule("syncguard-conformance", ALL, &[], &[REDIS, POSTGRES, BUCKET, GOOGLE, SQLITE, NETWORK, TLS]),
    // Recipes run on any store. Telemetry has the small API of OpenTelemetry, and no exporter.
    Rule("syncguard-recipes", "", &["syncguard-core"], &[MEMORY, CRON, REDIS, POSTGRES, BUCKET, GOOGLE, SQLITE, NETWORK, TLS]),
    Rule("syncguard-recipes", ALL, &["croner"], &[MEMORY, REDIS, POSTGRES, BUCKET, GOOGLE, SQLITE, NETWORK, TLS]),
    Rule("syncguard-telemetry", ALL, &["opentelemetry"], &[REDIS, POSTGRES, BUCKET, GOOGLE, SQLITE, NETWORK, TLS, EXPORTERS]),
    // A user of one store builds only the driver of that store, and TLS only on request.
    Rule("syncguard", "", &["syncguard-core"], &[MEMORY, REDIS, POSTGRES, BUCKET, GOOGLE, SQLITE, NETWORK, TLS]),
    Rule("syncguard", "default,blocking,recipes,serde,tls,unix-sockets", &["syncguard-memory"], &[CRON, REDIS, POSTGRES, BUCKET, GOOGLE, SQLITE, NETWORK, TLS]),
    Rule("syncguard", "redis", &["fred"], &[POSTGRES, BUCKET, GOOGLE, SQLITE, TLS]),
    Rule("syncguard", "redis,tls", &["fred", PROVIDER], &[POSTGRES, BUCKET, GOOGLE, SQLITE, OTHER_TLS]),
    Rule("syncguard", "postgres", &["tokio-postgres"], &[REDIS, BUCKET, GOOGLE, SQLITE, TLS]),
    Rule("syncguard", "postgres,tls", &["tokio-postgres", PROVIDER], &[REDIS, BUCKET, GOOGLE, SQLITE, OTHER_TLS]),
    Rule("syncguard", "etcd", &["tonic", "prost"], &[REDIS, POSTGRES, BUCKET, GOOGLE_ALONE, SQLITE, TLS]),
    Rule("syncguard", "etcd,tls", &["tonic", PROVIDER], &[REDIS, POSTGRES, BUCKET, GOOGLE_ALONE, SQLITE, OTHER_TLS]),
    Rule("syncguard", "firestore", &["gcloud-sdk", PROVIDER], &[REDIS, POSTGRES, BUCKET, ETCD, SQLITE, OTHER_TLS]),
    // The driver has no HTTP without a store's feature.
    Rule("syncguard", "object-store", &["object_store"], &[REDIS, POSTGRES, GOOGLE, SQLITE, NETWORK, TLS]),
    Rule("syncguard", "aws,azure,gcp", &["object_store", PROVIDER], &[REDIS, POSTGRES, GOOGLE, SQLITE, OTHER_TLS]),
    Rule("syncguard", "sqlite", &["rusqlite"], &[REDIS, POSTGRES, BUCKET, GOOGLE, NETWORK, TLS]),
    Rule("syncguard-cli", "sqlite", &["clap", "rusqlite"], &[REDIS, POSTGRES, BUCKET, GOOGLE, TLS]),
    // One TLS library with one provider. With a second one rustls panics at first use.
    Rule("syncguard", ALL, &["fred", "tokio-postgres", "gcloud-sdk", "object_store", "rusqlite", PROVIDER], &[OTHER_TLS]),
];

const MEMORY: &[&str] = &["syncguard-memory"];
const CRON: &[&str] = &["croner", "jiff*"];
const REDIS: &[&str] = &["syncguard-redis", "fred*", "redis*"];
const POSTGRES: &[&str] = &["syncguard-postgres", "tokio-postgres*", "postgres*", "deadpool*"];
/// Firestore and etcd.
const GOOGLE: &[&str] =
    &["syncguard-etcd", "syncguard-firestore", "gcloud*", "google*", "tonic*", "prost*"];
const ETCD: &[&str] = &["syncguard-etcd"];
const GOOGLE_ALONE: &[&str] = &["syncguard-firestore", "gcloud*", "google*"];
const BUCKET: &[&str] = &["syncguard-object-store", "object_store"];
const SQLITE: &[&str] = &["syncguard-sqlite", "rusqlite*", "libsqlite3*"];
const NETWORK: &[&str] = &["hyper*", "reqwest*", "socket2", "mio"];
const EXPORTERS: &[&str] = &["opentelemetry_sdk", "opentelemetry-*", "tracing-subscriber"];

/// TLS of any kind.
const TLS: &[&str] =
    &["rustls*", "tokio-rustls", "webpki*", "aws-lc*", "ring", "openssl*", "native-tls*"];

/// TLS of another kind than ours: rustls with aws-lc-rs. `openssl-probe` only finds certificates.
const OTHER_TLS: &[&str] =
    &["ring", "openssl", "openssl-sys", "native-tls*", "tokio-native-tls", "boring*", "s2n-tls*"];

const PROVIDER: &str = "aws-lc-rs";

/// Two versions of them are two providers.
const ONCE: [&str; 2] = [PROVIDER, "rustls"];

pub(super) fn check() -> Result<()> {
    let mut broken = Vec::new();
    for rule in RULES {
        let Rule(package, features, ..) = rule;
        let mut tree =
            cargo(["tree", "--target=all", "--prefix=none", "-e", "normal", "-p", package]);
        if *features == ALL {
            tree.arg(ALL);
        } else {
            tree.args(["--no-default-features", "--features", features]);
        }
        let found = rule.broken_by(&output(&mut tree)?);
        broken.extend(found.into_iter().map(|line| format!("{package} with {features:?}: {line}")));
    }
    if !broken.is_empty() {
        bail!("{}", broken.join("\n"));
    }
    Ok(())
}

impl Rule {
    /// The violations in a tree of lines "name version …".
    fn broken_by(&self, tree: &str) -> BTreeSet<String> {
        let Self(_, _, needed, banned) = self;
        let packages: BTreeSet<(&str, &str)> =
            tree.lines().filter_map(|line| line.split_once(' ')).collect();
        let packages: BTreeSet<(&str, &str)> = packages
            .into_iter()
            .map(|(name, rest)| (name, rest.split(' ').next().unwrap_or_default()))
            .collect();
        let versions = |wanted: &str| packages.iter().filter(|(name, _)| *name == wanted).count();
        let is_banned =
            |name: &str| banned.iter().copied().flatten().any(|pattern| matches(pattern, name));
        let banned = packages.iter().filter(|(name, _)| is_banned(name));
        let missing = needed.iter().filter(|name| versions(name) == 0);
        let twice = ONCE.iter().filter(|name| versions(name) > 1);
        (banned.map(|(name, _)| format!("{name} must not be there")))
            .chain(missing.map(|name| format!("{name} is not there")))
            .chain(twice.map(|name| format!("{name} is there in two versions")))
            .collect()
    }
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    }
}

#[cfg(test)]
mod tests {
    use syncguard_test_services::store::Store;

    use super::*;

    #[test]
    fn each_store_has_a_rule_against_all_others() {
        let all = || Store::ALL.into_iter().filter(|store| store.is_shared());
        for store in all() {
            let rule = RULES.iter().find(|rule| rule.0 == "syncguard" && rule.1 == store.name());
            let Rule(_, _, _, banned) = rule.unwrap_or_else(|| panic!("{store} has no rule"));
            for other in all().filter(|other| *other != store) {
                let package = format!("syncguard-{other}");
                let is_banned = banned.iter().copied().flatten().any(|it| matches(it, &package));
                assert!(is_banned, "{store} with {other}");
            }
        }
    }

    #[test]
    fn names_what_it_forbids() {
        let rule = Rule("p", ALL, &["tokio"], &[&["ring"], &["fred*"]]);
        let sound = "p v0.1.0 (/p)\nstring v1.0.0\ntokio v1.0.0\ntokio v1.0.0 (*)\n";
        assert!(rule.broken_by(sound).is_empty());
        let tree =
            "ring v1.0.0\nfred-macros v1.0.0\nrustls v0.23.0\nrustls v0.24.0\nstring v1.0.0\n";
        let broken: Vec<_> = rule.broken_by(tree).into_iter().collect();
        assert_eq!(
            broken,
            [
                "fred-macros must not be there",
                "ring must not be there",
                "rustls is there in two versions",
                "tokio is not there"
            ]
        );
    }
}
