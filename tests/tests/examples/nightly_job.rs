//! `nightly_job.rs` on PostgreSQL: the job runs once each night, also if a machine dies half-way.

use anyhow::{Context as _, Result, ensure};
use syncguard_postgres::tokio_postgres::{self, Client, NoTls};
use syncguard_test_services::postgres::PostgresServer;
use syncguard_test_services::process::ServerProcess;

use crate::examples::stage::{LONG, Stage, take};

const JOB: &str = env!("CARGO_BIN_EXE_example-nightly-job");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_night_is_done_once_and_a_crash_is_made_up_for() -> Result<()> {
    let (postgres, stage) = (PostgresServer::start()?, Stage::new()?);
    let url = postgres.url();
    let machines = |night: &str| -> Result<Vec<ServerProcess>> {
        (0..3).map(|_| stage.start(JOB, &[&url, night])).collect()
    };

    for machine in machines("2026-11-01")? {
        machine.wait(LONG)?;
    }
    ensure!(stage.count(" has finished 2026-11-01")? == 1, "{:?}", stage.lines()?);
    ensure!(stage.count(" has nothing to do: 2026-11-01 is done")? == 2, "{:?}", stage.lines()?);
    let invoices = "SELECT fence, count(*) FROM invoices WHERE night = '2026-11-01' GROUP BY fence";
    ensure!(postgres.psql(invoices)? == "1|50", "{}", postgres.psql(invoices)?);

    // The next night, the third batch has to wait for a transaction of ours.
    let mut db = connect(&url).await?;
    let ours = db.transaction().await?;
    ours.execute("INSERT INTO invoices VALUES ('2026-11-02', 25, 0)", &[]).await?;
    let mut fleet = machines("2026-11-02")?;
    let working = stage
        .until("a machine at work", |lines| {
            let line = lines.iter().find(|line| line.contains(" runs 2026-11-02 under fence "))?;
            line.split(' ').next()?.parse().ok()
        })
        .await?;
    one_waits(&postgres, "INSERT INTO invoices").await?;
    take(&mut fleet, working)?.kill()?;
    // Its lock expires, but its open transaction keeps the others away until it ends.
    postgres.psql("UPDATE syncguard_locks SET expires_at_ms = expires_at_ms - 120000")?;
    ours.rollback().await?;
    for machine in fleet {
        machine.wait(LONG)?;
    }
    ensure!(stage.count(" has finished 2026-11-02")? == 1, "{:?}", stage.lines()?);
    let sql = "SELECT count(DISTINCT customer), count(*), count(DISTINCT fence) FROM invoices
        WHERE night = '2026-11-02'";
    ensure!(postgres.psql(sql)? == "50|50|2", "{}", postgres.psql(sql)?);
    // The first process's commits stayed, and the second went on under a higher fence.
    let sql = "SELECT count(*) FROM invoices i JOIN nightly_runs r USING (night)
        WHERE night = '2026-11-02' AND i.fence < r.fence";
    ensure!(postgres.psql(sql)? == "20", "{}", postgres.psql(sql)?);
    Ok(())
}

pub(crate) async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// Waits until a session with this text in its statement waits for another session's lock.
pub(crate) async fn one_waits(postgres: &PostgresServer, statement: &str) -> Result<()> {
    let client = connect(&postgres.url()).await?;
    let sql = "SELECT count(*) FROM pg_stat_activity
        WHERE wait_event_type = 'Lock' AND query LIKE '%' || $1::text || '%'";
    let waiting = async {
        loop {
            let waiting: i64 = client.query_one(sql, &[&statement]).await?.try_get(0)?;
            if waiting > 0 {
                return anyhow::Ok(());
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LONG, waiting).await.context("nobody waits")?
}
