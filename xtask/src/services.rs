//! `cargo xtask services`: servers to try the examples on.

use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result};
use syncguard_test_services::install;
use syncguard_test_services::store::{RunningStore, Store};

pub(crate) fn run() -> Result<ExitCode> {
    install::allow();
    let servers = start()?;
    println!("\nWhere the examples find a server:\n");
    for (store, server) in &servers {
        println!("{}", export(*store, server));
    }
    println!("\nCtrl-C stops them.");
    loop {
        // The signal ends this process, and that ends the servers.
        thread::park();
    }
}

/// False for a store that needs none: a process and a file.
const fn has_server(store: Store) -> bool {
    match store {
        Store::Memory | Store::Sqlite => false,
        Store::Redis | Store::Postgres | Store::Etcd | Store::Firestore | Store::ObjectStore => {
            true
        }
    }
}

/// One server of each kind. They run as long as these values live.
fn start() -> Result<Vec<(Store, RunningStore)>> {
    let stores = Store::ALL.into_iter().filter(|store| has_server(*store));
    let started = stores.map(|store| {
        let before = Instant::now();
        let server = store.start().with_context(|| format!("cannot start {}", store.title()))?;
        println!("{}: ready after {:.1} s", store.title(), before.elapsed().as_secs_f64());
        Ok((store, server))
    });
    started.collect()
}

/// The command to type before an example.
fn export(store: Store, server: &RunningStore) -> String {
    let url = server.url("demo-syncguard");
    match (url.split_once('?'), store) {
        (Some((_, emulator)), Store::Firestore) => {
            let host = emulator.trim_start_matches("emulator=");
            format!(
                "export SYNCGUARD_STORE=firestore://demo-syncguard FIRESTORE_EMULATOR_HOST={host}"
            )
        }
        (_, Store::ObjectStore) => {
            format!("export SYNCGUARD_STORE='{}'", url.trim_end_matches('?'))
        }
        // Without the options for a part of a store, since the servers are empty.
        (plain, _) => format!("export SYNCGUARD_STORE={}", plain.map_or(&*url, |(plain, _)| plain)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_each_server_and_says_how_to_use_it() {
        let servers = start().unwrap();
        assert_eq!(servers.len(), 5);
        for (store, server) in &servers {
            let told = export(*store, server);
            // The address of the emulator of Azure has no other place.
            let (quote, has_options) = match store {
                Store::ObjectStore => ("'", true),
                _ => ("", false),
            };
            let start = format!("export SYNCGUARD_STORE={quote}{}://", store.scheme());
            assert!(told.starts_with(&start) && told.contains('?') == has_options, "{told}");
            let host = " FIRESTORE_EMULATOR_HOST=127.0.0.1:";
            assert_eq!(told.contains(host), *store == Store::Firestore, "{told}");
        }
    }
}
