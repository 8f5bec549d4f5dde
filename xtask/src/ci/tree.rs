//! Rules for the dependencies of packages, with the features that users turn on.

use std::collections::BTreeSet;

use anyhow::{Result, bail};

use crate::cargo::{cargo, output};

pub(super) struct Rule {
    package: &'static str,
    features: Features,
    /// The kinds of dependencies that count.
    edges: &'static str,
    /// Packages that must be in its tree; without them, the other checks prove nothing.
    needed: &'static [&'static str],
    /// Packages that must not be in its tree; a `*` at the end stands for any text.
    banned: &'static [&'static [&'static str]],
    /// Packages that may have only these features turned on.
    limited: &'static [(&'static str, &'static [&'static str])],
    /// The largest number of packages.
    most: Option<usize>,
}

#[derive(Clone, Copy)]
enum Features {
    All,
    /// Only these features, without the default ones.
    Only(&'static str),
}

/// The default values of a rule.
const RULE: Rule = Rule {
    package: "",
    features: Features::All,
    edges: "normal",
    needed: &[],
    banned: &[],
    limited: &[],
    most: None,
};

pub(super) const RULES: &[Rule] = &[
    // Tasks, timers and channels, but no I/O, because a user's runtime would then need its drivers.
    Rule {
        package: "syncguard-core",
        features: Features::Only("serde"),
        banned: &[REDIS, POSTGRES, GOOGLE, SQLITE, NETWORK, TLS],
        limited: &[("tokio", &["default", "macros", "rt", "sync", "time", "tokio-macros"])],
        most: Some(40),
        ..RULE
    },
    // The trusted certificates for backends, and no driver.
    Rule {
        package: "syncguard-core",
        features: Features::Only("tls"),
        needed: &[PROVIDER],
        banned: &[REDIS, POSTGRES, GOOGLE, SQLITE, NETWORK, OTHER_TLS],
        ..RULE
    },
    Rule {
        package: "syncguard-memory",
        banned: &[REDIS, POSTGRES, GOOGLE, SQLITE, NETWORK, TLS],
        most: Some(40),
        ..RULE
    },
    Rule {
        package: "syncguard-conformance",
        banned: &[REDIS, POSTGRES, GOOGLE, SQLITE, NETWORK, TLS],
        ..RULE
    },
    // Only the core, because recipes run on any store.
    Rule {
        package: "syncguard-recipes",
        features: Features::Only(""),
        needed: &["syncguard-core"],
        banned: &[&["syncguard-memory"], CRON, REDIS, POSTGRES, GOOGLE, SQLITE, NETWORK, TLS],
        most: Some(40),
        ..RULE
    },
    // A third of these packages are the macros that croner is built with.
    Rule {
        package: "syncguard-recipes",
        needed: &["syncguard-core", "croner", "jiff"],
        banned: &[&["syncguard-memory"], REDIS, POSTGRES, GOOGLE, SQLITE, NETWORK, TLS],
        most: Some(62),
        ..RULE
    },
    // Only the small API of OpenTelemetry, and no exporter.
    Rule {
        package: "syncguard-telemetry",
        banned: &[REDIS, POSTGRES, GOOGLE, SQLITE, NETWORK, TLS, EXPORTERS],
        ..RULE
    },
    // A user of one store builds only the driver of that store, and TLS only on request.
    Rule {
        package: "syncguard-redis",
        features: Features::Only(""),
        needed: &["fred"],
        banned: &[POSTGRES, GOOGLE, SQLITE, TLS],
        ..RULE
    },
    Rule {
        package: "syncguard-redis",
        needed: &["fred", PROVIDER],
        banned: &[POSTGRES, GOOGLE, SQLITE, OTHER_TLS],
        ..RULE
    },
    Rule {
        package: "syncguard-postgres",
        features: Features::Only(""),
        needed: &["tokio-postgres", "deadpool-postgres"],
        banned: &[REDIS, GOOGLE, SQLITE, TLS],
        ..RULE
    },
    Rule {
        package: "syncguard-postgres",
        needed: &["tokio-postgres", PROVIDER],
        banned: &[REDIS, GOOGLE, SQLITE, OTHER_TLS],
        ..RULE
    },
    Rule {
        package: "syncguard-firestore",
        needed: &["gcloud-sdk", PROVIDER],
        banned: &[REDIS, POSTGRES, SQLITE, OTHER_TLS],
        ..RULE
    },
    // SQLite itself is built-in C. No network, and no I/O of tokio.
    Rule {
        package: "syncguard-sqlite",
        needed: &["rusqlite", "libsqlite3-sys"],
        banned: &[REDIS, POSTGRES, GOOGLE, NETWORK, TLS],
        most: Some(60),
        ..RULE
    },
    // The same rules through the facade.
    Rule {
        package: FACADE,
        features: Features::Only(""),
        needed: &["syncguard-core"],
        banned: &[&["syncguard-memory"], REDIS, POSTGRES, GOOGLE, SQLITE, NETWORK, TLS],
        most: Some(40),
        ..RULE
    },
    Rule {
        package: FACADE,
        features: Features::Only("default"),
        needed: &["syncguard-memory"],
        banned: &[REDIS, POSTGRES, GOOGLE, SQLITE, NETWORK, TLS],
        most: Some(40),
        ..RULE
    },
    // `cargo run -p syncguard --example quickstart` builds these packages: its own dependencies, and those of the
    // other examples and tests of its package.
    Rule {
        package: FACADE,
        features: Features::Only("default"),
        edges: "normal,build,dev",
        needed: &["syncguard-memory", "tokio"],
        banned: &[REDIS, POSTGRES, GOOGLE, SQLITE, TLS],
        most: Some(45),
        ..RULE
    },
    // The recipes add no store and few packages.
    Rule {
        package: FACADE,
        features: Features::Only("memory,recipes"),
        needed: &["syncguard-memory", "syncguard-recipes"],
        banned: &[REDIS, POSTGRES, GOOGLE, SQLITE, NETWORK, TLS],
        most: Some(42),
        ..RULE
    },
    // `tls` extends the stores that are turned on, and adds none.
    Rule {
        package: FACADE,
        features: Features::Only("memory,tls,serde,unix-sockets"),
        needed: &["syncguard-memory"],
        banned: &[REDIS, POSTGRES, GOOGLE, SQLITE, NETWORK, TLS],
        ..RULE
    },
    Rule {
        package: FACADE,
        features: Features::Only("redis"),
        needed: &["fred"],
        banned: &[POSTGRES, GOOGLE, SQLITE, TLS],
        ..RULE
    },
    Rule {
        package: FACADE,
        features: Features::Only("redis,tls"),
        needed: &["fred", PROVIDER, "rustls"],
        banned: &[POSTGRES, GOOGLE, SQLITE, OTHER_TLS],
        ..RULE
    },
    Rule {
        package: FACADE,
        features: Features::Only("postgres"),
        needed: &["tokio-postgres"],
        banned: &[REDIS, GOOGLE, SQLITE, TLS],
        ..RULE
    },
    Rule {
        package: FACADE,
        features: Features::Only("postgres,tls"),
        needed: &["tokio-postgres", PROVIDER, "rustls"],
        banned: &[REDIS, GOOGLE, SQLITE, OTHER_TLS],
        ..RULE
    },
    Rule {
        package: FACADE,
        features: Features::Only("firestore"),
        needed: &["gcloud-sdk", PROVIDER, "rustls"],
        banned: &[REDIS, POSTGRES, SQLITE, OTHER_TLS],
        ..RULE
    },
    Rule {
        package: FACADE,
        features: Features::Only("sqlite"),
        needed: &["rusqlite"],
        banned: &[REDIS, POSTGRES, GOOGLE, NETWORK, TLS],
        ..RULE
    },
    // The command with one store. On Linux it has 60 packages, five of them ours, and six more that only build them;
    // the others are for other systems.
    Rule {
        package: "syncguard-cli",
        features: Features::Only("sqlite"),
        needed: &["clap", "rusqlite"],
        banned: &[REDIS, POSTGRES, GOOGLE, NETWORK_BUT_MIO, TLS],
        most: Some(66),
        ..RULE
    },
    // All features: one TLS library with one provider, each in one version. With a second provider rustls panics at
    // first use.
    Rule {
        package: FACADE,
        needed: &["fred", "tokio-postgres", "gcloud-sdk", "rusqlite", PROVIDER, "rustls"],
        banned: &[OTHER_TLS],
        limited: &[("rustls", RUSTLS), ("rustls-webpki", &["alloc", "aws-lc-rs", "std"])],
        ..RULE
    },
];

const FACADE: &str = "syncguard";

/// The schedules of cron expressions.
const CRON: &[&str] = &["croner", "jiff*"];

const REDIS: &[&str] = &["syncguard-redis", "fred*", "redis*"];

const POSTGRES: &[&str] = &["syncguard-postgres", "tokio-postgres*", "postgres*", "deadpool*"];

const GOOGLE: &[&str] =
    &["syncguard-firestore", "gcloud*", "google*", "tonic*", "prost*", "firestore*"];

const SQLITE: &[&str] = &["syncguard-sqlite", "rusqlite*", "libsqlite3*"];

const EXPORTERS: &[&str] = &["opentelemetry_sdk", "opentelemetry-*", "tracing-subscriber"];

const NETWORK: &[&str] = &["hyper*", "reqwest*", "socket2", "mio"];

/// For a program that waits for signals and processes, which tokio does with mio.
const NETWORK_BUT_MIO: &[&str] = &["hyper*", "reqwest*", "socket2"];

/// TLS of any kind.
const TLS: &[&str] =
    &["rustls*", "tokio-rustls", "webpki*", "aws-lc*", "ring", "openssl*", "native-tls*"];

/// TLS of another kind than ours: rustls with aws-lc-rs. `openssl-probe` only finds certificates.
const OTHER_TLS: &[&str] = &[
    "ring",
    "openssl",
    "openssl-sys",
    "native-tls*",
    "tokio-native-tls",
    "hyper-tls",
    "boring*",
    "graviola*",
    "rustls-openssl",
    "rustls-mbedtls*",
    "rustls-symcrypt",
    "rustls-rustcrypto",
    "s2n-tls*",
];

/// The one provider.
const PROVIDER: &str = "aws-lc-rs";

/// The allowed features of rustls, without `ring`.
const RUSTLS: &[&str] = &["aws-lc-rs", "aws_lc_rs", "log", "logging", "std", "tls12"];

/// Packages with at most one version: two versions are two providers.
const ONCE: &[&str] = &[PROVIDER, "rustls"];

impl Rule {
    pub(super) fn name(&self) -> String {
        format!("{} {} -e {}", self.package, self.arguments().join(" "), self.edges)
    }

    pub(super) fn check(&self) -> Result<()> {
        let mut command = cargo(["tree", "--target=all", "--prefix=none", "--format={p}\t{f}"]);
        command.args(["-e", self.edges, "-p", self.package]);
        command.args(self.arguments());
        let broken = self.broken_by(&output(&mut command)?);
        if !broken.is_empty() {
            bail!("cargo tree -p {}:\n{}", self.name(), broken.join("\n"));
        }
        Ok(())
    }

    fn arguments(&self) -> Vec<&'static str> {
        match self.features {
            Features::All => vec!["--all-features"],
            Features::Only("") => vec!["--no-default-features"],
            Features::Only(features) => vec!["--no-default-features", "--features", features],
        }
    }

    /// The violations in a tree of lines "name version …", a tab, "feature,feature".
    fn broken_by(&self, tree: &str) -> Vec<String> {
        let mut broken = BTreeSet::new();
        let mut packages = BTreeSet::new();
        for line in tree.lines() {
            let (package, features) = line.split_once('\t').unwrap_or((line, ""));
            let mut words = package.split(' ');
            let name = words.next().unwrap_or_default();
            packages.insert((name, words.next().unwrap_or_default()));
            if self.banned.iter().copied().flatten().any(|pattern| matches(pattern, name)) {
                broken.insert(format!("  {name} must not be there"));
            }
            let limit = self.limited.iter().find(|(limited, _)| *limited == name);
            let Some((_, allowed)) = limit else { continue };
            // "(*)" marks a package whose own dependencies were listed before.
            let features = features.trim_end_matches("(*)").trim();
            for feature in features.split(',').filter(|feature| !feature.is_empty()) {
                if !allowed.contains(&feature) {
                    broken.insert(format!("  {name} must not have its feature {feature}"));
                }
            }
        }
        let versions = |wanted: &str| packages.iter().filter(|(name, _)| *name == wanted).count();
        for name in self.needed.iter().filter(|name| versions(name) == 0) {
            broken.insert(format!("  {name} is not there"));
        }
        for name in ONCE.iter().filter(|name| versions(name) > 1) {
            broken.insert(format!("  {name} is there in {} versions", versions(name)));
        }
        if let Some(most) = self.most.filter(|most| packages.len() > *most) {
            broken.insert(format!("  {} packages, more than {most}", packages.len()));
        }
        broken.into_iter().collect()
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
    use super::*;

    const EXAMPLE: Rule = Rule {
        package: "p",
        needed: &["tokio"],
        banned: &[&["ring"], &["fred*"]],
        limited: &[("tokio", &["rt", "sync"])],
        most: Some(5),
        ..RULE
    };

    #[test]
    fn accepts_what_it_allows() {
        let tree = "p v0.1.0 (/p)\t\nstring v1.0.0\tstd\n\
                    tokio v1.0.0\trt,sync\ntokio v1.0.0\trt,sync (*)\n";
        assert_eq!(EXAMPLE.broken_by(tree), [""; 0]);
    }

    #[test]
    fn names_what_it_forbids() {
        let tree = "p v0.1.0 (/p)\t\nring v1.0.0\t\nfred-macros v1.0.0\t\n\
                    tokio v1.0.0\tnet,rt (*)\nrustls v0.23.0\t\nrustls v0.24.0\t\n";
        let broken = EXAMPLE.broken_by(tree).join("\n");
        assert_eq!(
            broken,
            "  6 packages, more than 5\n  fred-macros must not be there\n  ring must not be there\n  \
             rustls is there in 2 versions\n  tokio must not have its feature net"
        );
        assert_eq!(EXAMPLE.broken_by("p v0.1.0\t"), ["  tokio is not there"]);
    }

    fn lines(lines: impl IntoIterator<Item = String>) -> String {
        lines.into_iter().collect::<Vec<_>>().join("\n") + "\n"
    }

    /// Correct trees, each with a planted violation that its rule has to find.
    #[test]
    fn every_rule_can_fail() {
        for rule in RULES {
            let package = format!("{} v0.1.0 (/x)\t", rule.package);
            let needed = rule.needed.iter().map(|name| format!("{name} v1.0.0\t"));
            let sound = lines(std::iter::once(package).chain(needed));
            assert_eq!(rule.broken_by(&sound), [""; 0], "{}", rule.name());
            let with = |line: &str| rule.broken_by(&format!("{sound}{line}\n"));
            for pattern in rule.banned.iter().copied().flatten() {
                let intruder = pattern.replace('*', "-x");
                assert_eq!(with(&intruder), [format!("  {intruder} must not be there")]);
            }
            for (name, _) in rule.limited {
                let found = with(&format!("{name} v1.0.0\tplanted"));
                assert_eq!(found, [format!("  {name} must not have its feature planted")]);
            }
            for name in rule.needed {
                let others = sound.lines().filter(|line| !line.starts_with(name));
                let found = rule.broken_by(&lines(others.map(str::to_owned)));
                assert!(found.contains(&format!("  {name} is not there")));
            }
            if rule.needed.contains(&PROVIDER) {
                assert_eq!(with("aws-lc-rs v2.0.0\t"), ["  aws-lc-rs is there in 2 versions"]);
            }
            if let Some(most) = rule.most {
                let many = lines((0..most).map(|number| format!("x{number} v1.0.0\t")));
                assert!(with(&many).concat().contains("more than"), "{}", rule.name());
            }
        }
    }

    /// No store is in the tree of another.
    #[test]
    fn no_store_pulls_in_another() {
        for rule in RULES
            .iter()
            .filter(|rule| rule.package != FACADE || !matches!(rule.features, Features::All))
        {
            for (driver, store) in [
                ("fred", "redis"),
                ("tokio-postgres", "postgres"),
                ("gcloud-sdk", "firestore"),
                ("rusqlite", "sqlite"),
            ] {
                let mine = rule.name().contains(store);
                let found = rule.broken_by(&format!("{driver} v1.0.0\t"));
                let banned = found.contains(&format!("  {driver} must not be there"));
                assert_ne!(mine, banned, "{} and {driver}", rule.name());
            }
        }
    }
}
