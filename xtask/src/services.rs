//! The servers that tests share, and the environment variables that name them.

use std::env;
use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result};
use syncguard_test_services::firestore::FirestoreEmulator;
use syncguard_test_services::postgres::PostgresServer;
use syncguard_test_services::redis::RedisServer;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Service {
    Redis,
    Postgres,
    Firestore,
}

impl Service {
    pub(crate) const ALL: &[Self] = &[Self::Redis, Self::Postgres, Self::Firestore];

    /// Where tests look for this server.
    fn variable(self) -> &'static str {
        match self {
            Self::Redis => "SYNCGUARD_TEST_REDIS_URL",
            Self::Postgres => "SYNCGUARD_TEST_POSTGRES_URL",
            Self::Firestore => "FIRESTORE_EMULATOR_HOST",
        }
    }

    fn start(self) -> Result<Server> {
        Ok(match self {
            Self::Redis => Server::Redis(RedisServer::start()?),
            Self::Postgres => Server::Postgres(PostgresServer::start()?),
            Self::Firestore => Server::Firestore(FirestoreEmulator::start()?),
        })
    }
}

/// Servers that run as long as this value lives.
#[derive(Default)]
pub(crate) struct SharedServers {
    servers: Vec<(Service, Server)>,
}

impl SharedServers {
    /// Starts those of `services` that the environment does not name already.
    pub(crate) fn start(services: &[Service]) -> Result<Self> {
        Self::start_unless(services, |variable| env::var_os(variable).is_some())
    }

    fn start_unless(services: &[Service], is_set: impl Fn(&str) -> bool) -> Result<Self> {
        let mut shared = Self::default();
        for &service in services {
            if is_set(service.variable()) {
                println!("{service:?}: the one in {}", service.variable());
                continue;
            }
            let started = Instant::now();
            let server = service.start().with_context(|| format!("cannot start {service:?}"))?;
            println!("{service:?}: ready after {:.1} s", started.elapsed().as_secs_f64());
            shared.servers.push((service, server));
        }
        Ok(shared)
    }

    /// What to add to the environment of who is to use the servers.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        self.servers
            .iter()
            .map(|(service, server)| (service.variable(), server.address()))
            .collect()
    }
}

/// `cargo xtask services`
pub(crate) fn run() -> Result<ExitCode> {
    let servers = SharedServers::start(Service::ALL)?;
    println!();
    for (variable, address) in servers.variables() {
        println!("export {variable}={address}");
    }
    println!("\nCtrl-C stops them.");
    loop {
        // The signal ends this process, and that ends the servers.
        thread::park();
    }
}

enum Server {
    Redis(RedisServer),
    Postgres(PostgresServer),
    Firestore(FirestoreEmulator),
}

impl Server {
    /// The value of the variable.
    fn address(&self) -> String {
        match self {
            Self::Redis(server) => server.url(),
            Self::Postgres(server) => server.url(),
            Self::Firestore(server) => server.host_port(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_each_server_and_names_it() {
        let shared = SharedServers::start_unless(Service::ALL, |_| false).unwrap();
        let [redis, postgres, firestore] = &shared.variables()[..] else {
            panic!("{:?}", shared.variables());
        };
        assert_eq!(redis.0, "SYNCGUARD_TEST_REDIS_URL");
        assert!(redis.1.starts_with("redis://127.0.0.1:"), "{redis:?}");
        assert_eq!(postgres.0, "SYNCGUARD_TEST_POSTGRES_URL");
        assert!(postgres.1.starts_with("postgres://postgres:"), "{postgres:?}");
        assert_eq!(firestore.0, "FIRESTORE_EMULATOR_HOST");
        assert!(firestore.1.starts_with("127.0.0.1:"), "{firestore:?}");
    }

    #[test]
    fn uses_the_server_the_environment_names() {
        let shared = SharedServers::start_unless(Service::ALL, |variable| {
            variable != "SYNCGUARD_TEST_REDIS_URL"
        });
        let shared = shared.unwrap();
        assert_eq!(shared.variables().len(), 1);
        assert_eq!(shared.variables()[0].0, "SYNCGUARD_TEST_REDIS_URL");
    }
}
