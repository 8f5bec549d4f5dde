//! `syncguard doctor` on PostgreSQL: mends that contain names, and findings that exclude each
//! other.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use syncguard_test_services::postgres::PostgresServer;

use crate::harness::Harness;

/// The findings that are not green.
fn findings(url: &str, status: i32) -> Result<Vec<Value>> {
    let harness = Harness::at(url.to_owned(), None);
    let done = harness.run(&["doctor", "--json", "--rounds", "2"])?.expect(status)?;
    let report: Value = serde_json::from_str(&done.stdout)?;
    let all = report["findings"].as_array().context("findings")?;
    Ok(all.iter().filter(|finding| finding["level"] != "green").cloned().collect())
}

/// The mend of the only finding.
fn only(found: &[Value], level: &str, about: &str) -> Result<String> {
    ensure!(found.len() == 1, "{found:?}");
    ensure!(found[0]["level"] == level && found[0]["about"] == about, "{found:?}");
    found[0]["mend"].as_str().map(str::to_owned).context("a mend")
}

/// Missing tables are one finding, and blamed neither on the pooler nor on a permission.
#[test]
fn tables_that_are_missing_are_named() -> Result<()> {
    let server = PostgresServer::start()?;
    let found = findings(&server.url(), 78)?;
    let mend = only(&found, "red", "tables")?;
    ensure!(mend.contains("setup_schema=true"), "{mend}");
    let says = found[0]["says"].as_str().context("a text")?;
    ensure!(says.contains("syncguard_locks and syncguard_fence_counters"), "{says}");

    ensure!(findings(&format!("{}?setup_schema=true", server.url()), 0)?.is_empty());
    server.psql("DROP TABLE syncguard_fence_counters")?;
    let found = findings(&server.url(), 78)?;
    only(&found, "red", "tables")?;
    let says = found[0]["says"].as_str().context("a text")?;
    ensure!(says.contains("syncguard_fence_counters") && !says.contains("_locks"), "{says}");
    Ok(())
}

/// Other roles that may create tables in the schema could put their own table in the place of ours.
#[test]
fn a_schema_that_is_open_to_others_is_yellow() -> Result<()> {
    let server = PostgresServer::start()?;
    let url = format!("{}?setup_schema=true", server.url());
    server.psql("GRANT CREATE ON SCHEMA public TO PUBLIC")?;
    let mend = only(&findings(&url, 0)?, "yellow", "schema")?;
    ensure!(mend == "REVOKE CREATE ON SCHEMA public FROM PUBLIC", "{mend}");
    server.psql(&mend)?;
    ensure!(findings(&url, 0)?.is_empty());

    // Names that need quotes, and single roles instead of PUBLIC: the mend can be typed as shown.
    server
        .psql("CREATE ROLE \"Some One\"; CREATE ROLE \"select\"; CREATE SCHEMA \"Odd \"\"Name\"")?;
    server.psql("GRANT CREATE ON SCHEMA \"Odd \"\"Name\" TO \"Some One\", \"select\"")?;
    server.psql("ALTER ROLE postgres SET search_path = \"Odd \"\"Name\"")?;
    let mend = only(&findings(&url, 0)?, "yellow", "schema")?;
    ensure!(mend.contains("SCHEMA \"Odd \"\"Name\" FROM \"Some One\", \"select\""), "{mend}");
    server.psql(&mend)?;
    ensure!(findings(&url, 0)?.is_empty());
    Ok(())
}

/// Table names are in lower case, whatever the URL says, and some of them need quotes.
#[test]
fn tables_with_odd_names_are_mended_by_what_is_to_be_typed() -> Result<()> {
    let server = PostgresServer::start()?;
    server.psql("CREATE SCHEMA \"order\"")?;
    let tables = "lock_table=Order.Select&fence_table=Order.Fences";
    let url = format!("{}?setup_schema=true&{tables}", server.url());
    ensure!(findings(&url, 0)?.is_empty());
    let url = format!("{}?{tables}", server.url());
    let index = "SELECT indexname FROM pg_indexes WHERE tablename = 'select' AND indexdef LIKE '%(lock_id)'";
    server.psql(&format!("DROP INDEX \"order\".\"{}\"", server.psql(index)?.trim()))?;
    server.psql(&only(&findings(&url, 78)?, "red", "index")?)?;
    ensure!(findings(&url, 0)?.is_empty());
    server.psql("ALTER TABLE \"order\".\"select\" SET UNLOGGED")?;
    server.psql(&only(&findings(&url, 78)?, "red", "tables")?)?;
    ensure!(findings(&url, 0)?.is_empty());
    Ok(())
}

/// A database with another encoding refuses keys with characters that the encoding lacks.
#[test]
fn a_database_that_is_not_utf8_is_yellow() -> Result<()> {
    let server = PostgresServer::start()?;
    server.psql("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")?;
    let (here, there) =
        (format!(":{}/postgres", server.port()), format!(":{}/latin", server.port()));
    let url = format!("{}?setup_schema=true", server.url().replace(&here, &there));
    let found = findings(&url, 0)?;
    let mend = only(&found, "yellow", "encoding")?;
    ensure!(mend.contains("CREATE DATABASE") && mend.contains("ENCODING 'UTF8'"), "{mend}");
    let says = found[0]["says"].as_str().context("a text")?;
    ensure!(says.contains("LATIN1"), "{says}");
    Harness::at(url, None).run(&["run", "日", "--", "true"])?.expect(64)?;
    Ok(())
}
