//! Instructions of a server, counted by callgrind: the same on a busy machine, to 1 %.

use std::collections::BTreeSet;
use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;
use syncguard_test_services::postgres::PostgresServer;
use syncguard_test_services::process::ServerProcess;
use syncguard_test_services::{ports, wait};
use tempfile::TempDir;

use crate::server::{Kind, children};

/// A server under callgrind is some fifty times slower.
const PATIENCE: Duration = Duration::from_secs(300);

pub(crate) fn is_installed() -> bool {
    Command::new("valgrind").arg("--version").output().is_ok_and(|it| it.status.success())
}

/// The instructions of one of many operations: the difference between runs of few and of many, so that what happens once
/// is not counted. `run` does so many operations on a server.
pub(crate) async fn of_one(
    kind: Kind,
    cycles: usize,
    run: impl AsyncFn(&str, usize) -> Result<()>,
) -> Result<f64> {
    let counts = [cycles / 2, cycles * 2];
    let mut totals = [0.0; 2];
    if kind == Kind::Redis {
        for (total, count) in totals.iter_mut().zip(counts) {
            let folder = folder()?;
            let port = ports::free()?;
            let mut command = Command::new("valgrind");
            command.args(words(folder.path())).arg("redis-server").arg("--dir").arg(folder.path());
            // The server's work by time is seldom.
            command.args(["--save", "", "--hz", "1", "--port", &port.to_string()]);
            let log = folder.path().join("log");
            let mut server = ServerProcess::spawn("redis-server under valgrind", command, &log)?;
            server.wait_until_ready(PATIENCE, || {
                Ok(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok())
            })?;
            run(&format!("redis://127.0.0.1:{port}?operation_timeout_ms=60000"), count).await?;
            server.stop(Signal::TERM)?;
            *total = sum(folder.path())?;
        }
    } else {
        let folder = folder()?;
        let words = words(folder.path());
        let words: Vec<&str> =
            ["valgrind"].into_iter().chain(words.iter().map(String::as_str)).collect();
        let server = PostgresServer::builder().under(&words).config("autovacuum = off").start()?;
        let url = "?setup_schema=true&signals=false&pool_size=1&statement_timeout_ms=60000&pool_wait_timeout_ms=60000";
        let url = format!("{}{url}", server.url());
        let sessions =
            || -> Result<BTreeSet<u32>> { Ok(children(server.pid()?)?.into_iter().collect()) };
        // The first run makes the tables.
        run(&url, 1).await?;
        let own = server
            .psql("SELECT pid FROM pg_stat_activity WHERE backend_type <> 'client backend'")?;
        let own = own.lines().map(str::parse).collect::<Result<BTreeSet<u32>, _>>()?;
        for (total, count) in totals.iter_mut().zip(counts) {
            let ended =
                || wait::until("the end of the sessions", PATIENCE, || Ok(sessions()? == own));
            tokio::task::block_in_place(ended)?;
            forget(folder.path())?;
            run(&url, count).await?;
            tokio::task::block_in_place(ended)?;
            *total = sum(folder.path())?;
        }
    }
    Ok((totals[1] - totals[0]) / (counts[1] - counts[0]) as f64)
}

/// A folder for the reports, in which the server's user may write.
fn folder() -> Result<TempDir> {
    let folder = tempfile::tempdir()?;
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777))?;
    Ok(folder)
}

fn words(folder: &Path) -> Vec<String> {
    let file = format!("--callgrind-out-file={}/%p.callgrind", folder.display());
    vec!["-q".to_owned(), "--tool=callgrind".to_owned(), file]
}

fn reports(folder: &Path) -> Result<Vec<std::path::PathBuf>> {
    let all = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    Ok(all
        .into_iter()
        .filter(|path| path.extension().is_some_and(|it| it == "callgrind"))
        .collect())
}

fn forget(folder: &Path) -> Result<()> {
    reports(folder)?.iter().try_for_each(|path| Ok(fs::remove_file(path)?))
}

/// The instructions of all processes that have ended.
fn sum(folder: &Path) -> Result<f64> {
    let reports = reports(folder)?;
    ensure!(!reports.is_empty(), "valgrind wrote no report");
    let mut sum = 0.0;
    for path in reports {
        let text = fs::read_to_string(&path)?;
        let total = text.lines().find_map(|line| line.strip_prefix("totals: "));
        sum += total.context("a report without its sum")?.trim().parse::<f64>()?;
    }
    Ok(sum)
}
