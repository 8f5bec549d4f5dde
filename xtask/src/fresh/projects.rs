//! The projects. Each is a way to depend on the library.

use std::fs;
use std::path::Path;

use anyhow::Result;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Store {
    Memory,
    Redis,
    Postgres,
    Firestore,
    Sqlite,
}

pub(super) struct Project {
    pub(super) name: &'static str,
    /// Packages of the workspace.
    packages: &'static [&'static str],
    /// Further lines of dependencies.
    more: &'static str,
    /// Features of the first package, in the form of a manifest; `None` for the default features.
    features: Option<&'static str>,
    source: Source,
    pub(super) store: Store,
    /// Its output on success.
    pub(super) says: &'static str,
}

#[derive(Clone, Copy)]
enum Source {
    /// This text.
    Text(&'static str),
    /// One crate's backend, of this type.
    Backend(&'static str),
    /// An example of the conformance suite.
    Example(&'static str),
}

const FACADE: Source = Source::Text(include_str!("../../fresh/facade.rs"));

/// The first lock of a new key.
const FIRST: &str = "locked under fence 000000000000001";

const fn project(name: &'static str, source: Source, store: Store) -> Project {
    Project { name, packages: &["syncguard"], more: "", features: None, source, store, says: FIRST }
}

pub(super) const PROJECTS: &[Project] = &[
    // One crate.
    Project {
        packages: &["syncguard-memory"],
        ..project("memory-crate", Source::Backend("MemoryBackend"), Store::Memory)
    },
    Project {
        packages: &["syncguard-redis"],
        ..project("redis-crate", Source::Backend("RedisBackend"), Store::Redis)
    },
    Project {
        packages: &["syncguard-redis"],
        ..project(
            "redis-crate-own-client",
            Source::Text(include_str!("../../fresh/redis_client.rs")),
            Store::Redis,
        )
    },
    Project {
        packages: &["syncguard-postgres"],
        ..project("postgres-crate", Source::Backend("PostgresBackend"), Store::Postgres)
    },
    Project {
        packages: &["syncguard-postgres"],
        ..project(
            "postgres-crate-own-pool",
            Source::Text(include_str!("../../fresh/postgres_pool.rs")),
            Store::Postgres,
        )
    },
    Project {
        packages: &["syncguard-firestore"],
        ..project("firestore-crate", Source::Backend("FirestoreBackend"), Store::Firestore)
    },
    Project {
        packages: &["syncguard-sqlite"],
        ..project("sqlite-crate", Source::Backend("SqliteBackend"), Store::Sqlite)
    },
    // Beside another dependency on rusqlite: the ends of the range in Cargo.toml.
    Project {
        packages: &["syncguard-sqlite"],
        more: "rusqlite = \"=0.39.0\"",
        ..project("sqlite-crate-oldest-rusqlite", Source::Backend("SqliteBackend"), Store::Sqlite)
    },
    Project {
        packages: &["syncguard-sqlite"],
        more: "rusqlite = \"=0.43.0\"",
        ..project("sqlite-crate-newest-rusqlite", Source::Backend("SqliteBackend"), Store::Sqlite)
    },
    // A custom backend.
    Project {
        packages: &["syncguard-core", "syncguard-conformance"],
        says: "0 of ",
        ..project("custom-backend", Source::Example("custom_store"), Store::Memory)
    },
    project(
        "from-typescript",
        Source::Text(include_str!("../../fresh/from_typescript.rs")),
        Store::Memory,
    ),
    Project {
        features: Some("\"postgres\", \"redis\""),
        more: "axum = \"0.8\"",
        ..project("payments", Source::Text(include_str!("../../fresh/payments.rs")), Store::Redis)
    },
    // The facade, with each feature.
    project("facade", FACADE, Store::Memory),
    Project { features: Some("\"memory\""), ..project("facade-memory", FACADE, Store::Memory) },
    Project {
        features: Some("\"memory\", \"serde\""),
        ..project("facade-serde", FACADE, Store::Memory)
    },
    Project { features: Some("\"redis\""), ..project("facade-redis", FACADE, Store::Redis) },
    Project {
        features: Some("\"redis\", \"tls\", \"unix-sockets\""),
        ..project("facade-redis-tls", FACADE, Store::Redis)
    },
    Project {
        features: Some("\"postgres\""),
        ..project("facade-postgres", FACADE, Store::Postgres)
    },
    Project {
        features: Some("\"postgres\", \"tls\""),
        ..project("facade-postgres-tls", FACADE, Store::Postgres)
    },
    Project {
        features: Some("\"firestore\""),
        ..project("facade-firestore", FACADE, Store::Firestore)
    },
    Project { features: Some("\"sqlite\""), ..project("facade-sqlite", FACADE, Store::Sqlite) },
    Project {
        features: Some("\"firestore\", \"memory\", \"postgres\", \"redis\", \"sqlite\", \"tls\""),
        ..project("facade-every-store", FACADE, Store::Redis)
    },
];

impl Project {
    /// Returns true if it needs no driver, no server, and no build of another project.
    pub(super) fn is_small(&self) -> bool {
        self.store == Store::Memory && self.features.is_none()
    }

    /// The manifest that `cargo new` and `cargo add` would have written.
    pub(super) fn manifest(&self) -> String {
        let mut manifest = vec![
            "[package]".to_owned(),
            format!("name = \"{}\"", self.name),
            "version = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]".to_owned(),
            "tokio = { version = \"1\", features = [\"macros\", \"rt-multi-thread\"] }".to_owned(),
            self.more.to_owned(),
        ];
        for (index, package) in self.packages.iter().enumerate() {
            let features = match self.features.filter(|_| index == 0) {
                Some(features) => format!(", default-features = false, features = [{features}]"),
                None => String::new(),
            };
            manifest.push(format!("{package} = {{ version = \"0.1\"{features} }}"));
        }
        manifest.join("\n") + "\n"
    }

    pub(super) fn source(&self, root: &Path) -> Result<String> {
        Ok(match self.source {
            Source::Text(text) => text.to_owned(),
            Source::Backend(backend) => include_str!("../../fresh/one_store.rs")
                .replace("CRATE", &self.packages[0].replace('-', "_"))
                .replace("BACKEND", backend),
            Source::Example(name) => {
                let file = format!("crates/syncguard-conformance/examples/{name}.rs");
                fs::read_to_string(root.join(file))?
            }
        })
    }
}
