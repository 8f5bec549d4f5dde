//! What a package may depend on, when its users build it with all its features.

use anyhow::{Result, bail};

use crate::cargo::{cargo, output};

pub(super) struct Rule {
    pub(super) package: &'static str,
    /// Packages that must not be in its tree; a `*` at the end stands for anything.
    banned: &'static [&'static str],
    /// Packages that may have only these features turned on.
    features: &'static [(&'static str, &'static [&'static str])],
}

pub(super) const RULES: &[Rule] = &[
    // Tasks, timers and channels; no I/O, whose drivers a user's runtime would then have to have.
    Rule {
        package: "syncguard-core",
        banned: DRIVERS_AND_TLS,
        features: &[("tokio", &["default", "macros", "rt", "sync", "time", "tokio-macros"])],
    },
    Rule { package: "syncguard-memory", banned: DRIVERS_AND_TLS, features: &[] },
    // The API of OpenTelemetry, which is small, and nothing that exports.
    Rule {
        package: "syncguard-telemetry",
        banned: &["opentelemetry_sdk", "opentelemetry-otlp", "tracing-subscriber"],
        features: &[],
    },
    Rule { package: "syncguard-telemetry", banned: DRIVERS_AND_TLS, features: &[] },
    // Whoever uses one store builds the driver of that store, and one TLS provider.
    Rule {
        package: "syncguard-redis",
        banned: &[
            "tokio-postgres*",
            "deadpool*",
            "gcloud-sdk*",
            "tonic*",
            "ring",
            "openssl",
            "openssl-sys",
            "native-tls",
        ],
        features: &[],
    },
    Rule {
        package: "syncguard-postgres",
        banned: &[
            "fred*",
            "redis*",
            "gcloud-sdk*",
            "tonic*",
            "ring",
            "openssl",
            "openssl-sys",
            "native-tls",
        ],
        features: &[],
    },
    Rule {
        package: "syncguard-firestore",
        banned: &[
            "fred*",
            "redis*",
            "tokio-postgres*",
            "deadpool*",
            "ring",
            "openssl",
            "openssl-sys",
            "native-tls",
        ],
        features: &[],
    },
];

const DRIVERS_AND_TLS: &[&str] = &[
    "fred*",
    "redis*",
    "tokio-postgres*",
    "postgres*",
    "deadpool*",
    "gcloud-sdk*",
    "tonic*",
    "hyper*",
    "reqwest*",
    "rustls*",
    "tokio-rustls",
    "native-tls",
    "openssl*",
    "ring",
    "aws-lc*",
];

impl Rule {
    pub(super) fn check(&self) -> Result<()> {
        let mut command = cargo(["tree", "--edges=normal", "--all-features", "--target=all"]);
        command.args(["--prefix=none", "--format={p}\t{f}", "-p", self.package]);
        let broken = self.broken_by(&output(&mut command)?);
        if !broken.is_empty() {
            bail!(
                "cargo tree -e normal --all-features -p {}:\n{}",
                self.package,
                broken.join("\n")
            );
        }
        Ok(())
    }

    /// What is wrong with a tree of lines "name version …", a tab, "feature,feature".
    fn broken_by(&self, tree: &str) -> Vec<String> {
        let mut broken = Vec::new();
        for line in tree.lines() {
            let (package, features) = line.split_once('\t').unwrap_or((line, ""));
            let name = package.split(' ').next().unwrap_or_default();
            if self.banned.iter().any(|pattern| matches(pattern, name)) {
                broken.push(format!("  {name} must not be there"));
            }
            let limit = self.features.iter().find(|(limited, _)| *limited == name);
            let Some((_, allowed)) = limit else { continue };
            // "(*)" marks a package whose own dependencies were listed before.
            let features = features.trim_end_matches("(*)").trim();
            for feature in features.split(',').filter(|feature| !feature.is_empty()) {
                if !allowed.contains(&feature) {
                    broken.push(format!("  {name} must not have its feature {feature}"));
                }
            }
        }
        broken.sort();
        broken.dedup();
        broken
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

    const RULE: Rule =
        Rule { package: "p", banned: &["ring", "fred*"], features: &[("tokio", &["rt", "sync"])] };

    #[test]
    fn accepts_what_it_allows() {
        let tree = "p v0.1.0 (/p)\t\nstring v1.0.0\tstd\n\
                    tokio v1.0.0\trt,sync\ntokio v1.0.0\trt,sync (*)\n";
        assert_eq!(RULE.broken_by(tree), [""; 0]);
    }

    #[test]
    fn names_what_it_forbids() {
        let tree =
            "p v0.1.0 (/p)\t\nring v1.0.0\t\nfred-macros v1.0.0\t\ntokio v1.0.0\tnet,rt (*)\n";
        let broken = RULE.broken_by(tree).join("\n");
        assert_eq!(
            broken,
            "  fred-macros must not be there\n  ring must not be there\n  \
             tokio must not have its feature net"
        );
    }
}
