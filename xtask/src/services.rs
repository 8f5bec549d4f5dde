//! `cargo xtask services`: servers to try the examples on.

use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result};
use syncguard_test_services::etcd::EtcdCluster;
use syncguard_test_services::firestore::FirestoreEmulator;
use syncguard_test_services::install;
use syncguard_test_services::postgres::PostgresServer;
use syncguard_test_services::redis::RedisServer;

pub(crate) fn run() -> Result<ExitCode> {
    install::allow();
    let servers = Servers::start()?;
    println!("\nWhere the examples find a server:\n");
    for line in servers.exports() {
        println!("{line}");
    }
    println!("\nCtrl-C stops them.");
    loop {
        // The signal ends this process, and that ends the servers.
        thread::park();
    }
}

/// One server of each kind. They run as long as this value lives.
struct Servers {
    redis: RedisServer,
    postgres: PostgresServer,
    etcd: EtcdCluster,
    firestore: FirestoreEmulator,
}

impl Servers {
    fn start() -> Result<Self> {
        Ok(Self {
            redis: started("Redis", RedisServer::start)?,
            postgres: started("PostgreSQL", PostgresServer::start)?,
            etcd: started("etcd", || EtcdCluster::start(1))?,
            firestore: started("Firestore emulator", FirestoreEmulator::start)?,
        })
    }

    /// The commands to type before an example, one line for each server.
    fn exports(&self) -> [String; 4] {
        [
            format!("export SYNCGUARD_STORE={}", self.redis.url()),
            format!("export SYNCGUARD_STORE={}", self.postgres.url()),
            format!("export SYNCGUARD_STORE={}", self.etcd.url()),
            format!(
                "export SYNCGUARD_STORE=firestore://demo-syncguard FIRESTORE_EMULATOR_HOST={}",
                self.firestore.host_port()
            ),
        ]
    }
}

fn started<T>(name: &str, start: impl FnOnce() -> Result<T>) -> Result<T> {
    let before = Instant::now();
    let server = start().with_context(|| format!("cannot start {name}"))?;
    println!("{name}: ready after {:.1} s", before.elapsed().as_secs_f64());
    Ok(server)
}

#[cfg(test)]
mod tests {
    use syncguard_test_services::store::Store;

    use super::*;

    #[test]
    fn starts_each_server_and_says_how_to_use_it() {
        let servers = Servers::start().unwrap();
        // A file has no server.
        for store in Store::ALL.into_iter().filter(|it| it.is_shared() && *it != Store::Sqlite) {
            let start = format!("export SYNCGUARD_STORE={store}://");
            assert!(servers.exports().iter().any(|line| line.starts_with(&start)), "{store}");
        }
        let [redis, postgres, etcd, firestore] = servers.exports();
        assert!(redis.starts_with("export SYNCGUARD_STORE=redis://127.0.0.1:"), "{redis}");
        let expected = "export SYNCGUARD_STORE=postgres://postgres:";
        assert!(postgres.starts_with(expected), "{postgres}");
        assert!(etcd.starts_with("export SYNCGUARD_STORE=etcd://127.0.0.1:"), "{etcd}");
        let host = servers.firestore.host_port();
        assert!(firestore.ends_with(&format!(" FIRESTORE_EMULATOR_HOST={host}")), "{firestore}");
    }
}
