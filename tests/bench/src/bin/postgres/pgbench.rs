//! The statements of the backend, run by pgbench.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use syncguard_postgres::tokio_postgres::Client;
use syncguard_test_services::postgres::{PostgresServer, program};
use tempfile::TempDir;

/// A time in the year 2255.
const FAR: &str = "9000000000000::bigint";

/// One cycle, as a script.
pub(crate) struct Script {
    port: u16,
    folder: TempDir,
}

impl Script {
    /// Takes the statements from a session that has them prepared, and has used most those of usual cycles.
    pub(crate) async fn new(port: u16, session: &Client) -> Result<Self> {
        let statement = async |contains: &str| -> Result<String> {
            let sql = "SELECT statement FROM pg_prepared_statements WHERE statement LIKE '%' || $1::text || '%'
                ORDER BY generic_plans + custom_plans DESC LIMIT 1";
            let row = session.query_one(sql, &[&contains]).await;
            Ok(row.with_context(|| format!("no statement with {contains}"))?.get(0))
        };
        // Keys and lock ids are numbers: pgbench has no texts.
        let key = "('bench ' || (:client_id)::int)";
        let id = "lpad((:id)::bigint::text, 22, 'A')";
        let fence_key = "('fence' || chr(58) || 'bench ' || (:client_id)::int)";
        let values = [id, key, fence_key, key, "60000::bigint", "'bench'::text", FAR];
        let acquire = with_values(&statement("AS taken_fence").await?, &values);
        let release = with_values(&statement("AS released").await?, &[id, FAR]);
        let folder = TempDir::new()?;
        // Each of the two returns one row, or the script fails.
        let script = format!(
            "\\set id random(1, 9000000000000000000)\n{acquire} \\gset\n{release} \\gset\n"
        );
        std::fs::write(folder.path().join("cycle.sql"), script)?;
        Ok(Self { port, folder })
    }

    /// The cycles a second, without the time to connect.
    pub(crate) fn run(&self, clients: usize, time: Duration) -> Result<f64> {
        // pgbench runs for whole seconds, or for a number of cycles.
        let (unit, length) = if time.as_secs() == 0 { ("-t", 10) } else { ("-T", time.as_secs()) };
        let output = Command::new(program("pgbench")?)
            .args(["-n", "-M", "prepared", "-f", "cycle.sql", "-h", "127.0.0.1", "-U", "postgres"])
            .args(["-p", &self.port.to_string(), "-c", &clients.to_string()])
            .args(["-j", &clients.min(2).to_string(), unit, &length.to_string(), "postgres"])
            .current_dir(self.folder.path())
            .env("PGPASSWORD", PostgresServer::PASSWORD)
            .output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success(), "pgbench: {}", String::from_utf8_lossy(&output.stderr));
        let rate = said.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next());
        Ok(rate.context("no rate")?.parse()?)
    }
}

/// Puts the values of `$1`, `$2` and so on into a statement; the last come first, since `$10` begins with `$1`.
fn with_values(statement: &str, values: &[&str]) -> String {
    values.iter().enumerate().rev().fold(statement.to_owned(), |statement, (index, value)| {
        statement.replace(&format!("${}", index + 1), value)
    })
}
