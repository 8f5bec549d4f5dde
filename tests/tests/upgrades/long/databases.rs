//! PostgreSQL, by `pg_upgrade`, and by a dump.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use syncguard_core::contract::TIME_TOLERANCE;
use syncguard_history::Invariant;
use syncguard_test_services::fetch::programs;
use syncguard_test_services::postgres::PostgresServer;
use syncguard_test_services::proxy::FaultProxy;

use super::load::{Load, TTL};

fn new() -> Result<Option<PathBuf>> {
    programs("postgres=18.6")
}

fn url(port: u16) -> String {
    format!("postgres://postgres@127.0.0.1:{port}/postgres?setup_schema=true")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_data_is_taken_over_in_place() -> Result<()> {
    let mut server = PostgresServer::builder().programs(programs("postgres=15.18")?).start()?;
    let load = Load::start(&url(server.port())).await?;
    server.upgrade(new()?)?;
    ensure!(server.psql("SHOW server_version")? == "18.6");
    load.end(Duration::from_secs(120)).await
}

/// The locks of the dump are the locks of its server if no client reaches that any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dump_of_a_server_without_clients_keeps_fences() -> Result<()> {
    let server = PostgresServer::builder().programs(programs("postgres=15.18")?).start()?;
    let name = FaultProxy::start(server.port())?;
    let load = Load::start(&url(name.port())).await?;
    let newer = PostgresServer::builder().programs(new()?).start()?;
    name.refuse();
    name.sever();
    none_is_left(&server)?;
    server.copy_to(&newer)?;
    name.lead_to(newer.port());
    name.accept()?;
    load.end(Duration::from_secs(120)).await
}

/// A dump that was made meanwhile has neither the last locks nor their fences: the locks have to end, and fences are
/// raised by the statement of the page. Without that they come again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fences_are_raised_after_an_older_dump() -> Result<()> {
    const RAISE: &str = "UPDATE syncguard_fence_counters SET fence = fence + 1000000000 WHERE fence < 1000000000000;";
    let page = include_str!("../../../../crates/syncguard/src/guide/production.md");
    ensure!(page.lines().any(|line| line == RAISE), "the page has another statement");
    for statement in [RAISE, "SELECT"] {
        let server = PostgresServer::builder().programs(programs("postgres=15.18")?).start()?;
        let name = FaultProxy::start(server.port())?;
        let load = Load::start(&url(name.port())).await?;
        let newer = PostgresServer::builder().programs(new()?).start()?;
        server.copy_to(&newer)?;
        load.goes_on().await;
        name.refuse();
        name.sever();
        none_is_left(&server)?;
        tokio::time::sleep(TTL + TIME_TOLERANCE).await;
        newer.psql(statement)?;
        name.lead_to(newer.port());
        name.accept()?;
        if statement == RAISE {
            load.end(Duration::from_secs(120)).await?;
        } else {
            let (violations, _) = load.judged().await?;
            let broken: Vec<_> = violations.iter().map(|violation| violation.invariant).collect();
            ensure!(broken.contains(&Invariant::FencesGrow), "{broken:?}");
        }
    }
    Ok(())
}

/// A server carries out what was sent before the end of its connection.
fn none_is_left(server: &PostgresServer) -> Result<()> {
    syncguard_test_services::wait::until("the end of all sessions", Duration::from_secs(60), || {
        let others = "SELECT count(*) FROM pg_stat_activity \
                      WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
        Ok(server.psql(others)? == "0")
    })
}
