//! The faults of each server.

use std::thread;

use anyhow::Result;
use syncguard_history::{Fault, Random};

use super::{Action, cluster, etcd};
use crate::store::{Server, Store};

pub(super) fn for_store(store: &Store) -> Vec<Action> {
    let stop = Action {
        fault: Fault::ServerStopped,
        every: (45_000, 75_000),
        takes_away: true,
        run: stop,
    };
    match &*store.server() {
        Server::Redis(_) => vec![restarts((12_000, 25_000)), stop],
        Server::Postgres(_) => vec![restarts((12_000, 25_000)), terminates(), stop],
        Server::PgBouncer(..) => {
            let fault = Fault::PoolerRestarted;
            let pooler =
                Action { fault, every: (6_000, 14_000), takes_away: true, run: restart_pooler };
            vec![pooler, restarts((20_000, 40_000)), terminates(), stop]
        }
        // The emulators' data are in memory, so a restart would give another store.
        Server::Firestore(_) | Server::ObjectStore(_) => vec![stop],
        Server::Sqlite(_) => {
            let keep_out = Action {
                fault: Fault::KeptOut,
                every: (200, 800),
                takes_away: false,
                run: keep_out,
            };
            vec![keep_out, stop]
        }
        Server::Cluster(_) => cluster::actions(),
        Server::Etcd(_) => etcd::actions(),
    }
}

fn restarts(every: (u64, u64)) -> Action {
    Action { fault: Fault::ServerRestarted, every, takes_away: true, run: restart }
}

fn terminates() -> Action {
    Action { fault: Fault::Severed, every: (400, 1600), takes_away: false, run: terminate }
}

/// Longer than any caller waits for an answer, and longer than the limit for late requests.
fn stop(store: &Store, random: &mut Random) -> Result<()> {
    store.pause()?;
    thread::sleep(random.millis(5500, 6500));
    store.resume()
}

/// SIGKILL, and a start with the data on disk.
fn restart(store: &Store, random: &mut Random) -> Result<()> {
    match &mut *store.server() {
        Server::Redis(server) => {
            server.kill()?;
            thread::sleep(random.millis(0, 800));
            server.restart()
        }
        Server::Postgres(server) | Server::PgBouncer(_, server) => {
            server.kill()?;
            thread::sleep(random.millis(0, 800));
            server.restart()
        }
        _ => Ok(()),
    }
}

fn restart_pooler(store: &Store, random: &mut Random) -> Result<()> {
    if let Server::PgBouncer(pooler, _) = &mut *store.server() {
        pooler.kill()?;
        thread::sleep(random.millis(0, 500));
        pooler.restart()?;
    }
    Ok(())
}

/// Ends one session of the fleet, at any point of its work.
fn terminate(store: &Store, _: &mut Random) -> Result<()> {
    if let Server::Postgres(server) | Server::PgBouncer(_, server) = &*store.server() {
        server.psql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'
            ORDER BY state <> 'active', random() LIMIT 1",
        )?;
    }
    Ok(())
}

/// Shorter than any caller waits.
fn keep_out(store: &Store, random: &mut Random) -> Result<()> {
    store.pause()?;
    thread::sleep(random.millis(20, 400));
    store.resume()
}
