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

    let harness = Harness::at(server.url(), None);
    let refused = harness.run(&["run", "k", "--", "true"])?.expect(64)?;
    ensure!(refused.stderr.contains("run `syncguard setup`"), "{refused:?}");
    for _ in 0..2 {
        let done = harness.run(&["setup"])?.expect(0)?;
        ensure!(done.stdout == "the tables are complete\n", "{done:?}");
    }
    let without = Harness::file()?.run(&["setup"])?.expect(0)?;
    ensure!(without.stdout == "this store needs no setup\n", "{without:?}");
    ensure!(findings(&server.url(), 0)?.is_empty());
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

/// Table names keep their capitals, and some of them need quotes.
#[test]
fn tables_with_odd_names_are_mended_by_what_is_to_be_typed() -> Result<()> {
    let server = PostgresServer::start()?;
    server.psql("CREATE SCHEMA \"order\"")?;
    let tables = "lock_table=order.Select&fence_table=order.Fences";
    let url = format!("{}?setup_schema=true&{tables}", server.url());
    ensure!(findings(&url, 0)?.is_empty());
    let url = format!("{}?{tables}", server.url());
    let index = "SELECT indexname FROM pg_indexes WHERE tablename = 'Select' AND indexdef LIKE '%(lock_id)'";
    server.psql(&format!("DROP INDEX \"order\".\"{}\"", server.psql(index)?.trim()))?;
    server.psql(&only(&findings(&url, 78)?, "red", "index")?)?;
    ensure!(findings(&url, 0)?.is_empty());
    server.psql("ALTER TABLE \"order\".\"Select\" SET UNLOGGED")?;
    server.psql(&only(&findings(&url, 78)?, "red", "tables")?)?;
    ensure!(findings(&url, 0)?.is_empty());
    Ok(())
}

/// A right that lets others change or hide locks is red, and the mend is no more than is needed. The doctor takes no lock
/// in such tables, whose triggers would run as the doctor's role.
#[test]
fn tables_that_others_can_act_on_are_red() -> Result<()> {
    let server = PostgresServer::start()?;
    let setup = format!("{}?setup_schema=true", server.url());
    ensure!(findings(&setup, 0)?.is_empty());
    server.psql(
        "CREATE ROLE app LOGIN; CREATE ROLE \"e\u{1b}[2Jve\";
         GRANT SELECT, INSERT, UPDATE, DELETE ON syncguard_locks TO app;
         GRANT SELECT, INSERT, UPDATE ON syncguard_fence_counters TO app;
         CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE; END'",
    )?;
    let app = format!("postgres://app@127.0.0.1:{}/postgres", server.port());
    ensure!(findings(&app, 0)?.is_empty());
    for (bad, part) in [
        (
            "GRANT TRIGGER ON syncguard_locks TO \"e\u{1b}[2Jve\"",
            "REVOKE TRIGGER, REFERENCES ON public.syncguard_locks FROM",
        ),
        ("ALTER TABLE syncguard_locks ENABLE ROW LEVEL SECURITY", "DISABLE ROW LEVEL SECURITY"),
        (
            "CREATE TRIGGER \"T t\" BEFORE INSERT ON syncguard_locks EXECUTE FUNCTION f()",
            "LOCK TABLE ONLY public.syncguard_locks",
        ),
    ] {
        server.psql(bad)?;
        let mend = only(&findings(&app, 78)?, "red", "tables")?;
        ensure!(mend.contains(part), "{mend}");
        let text = Harness::at(app.clone(), None).run(&["doctor"])?.expect(78)?.stdout;
        ensure!(!text.contains('\u{1b}'), "{text:?}");
        server.psql(&mend)?;
        ensure!(findings(&app, 0)?.is_empty());
    }
    // An owner whom only the user can know.
    server.psql("CREATE ROLE other; ALTER TABLE syncguard_locks OWNER TO other")?;
    let found = findings(&app, 78)?;
    only(&found, "red", "tables")?;
    let says = found[0]["says"].as_str().context("a text")?;
    ensure!(says.contains("public.syncguard_locks belongs to other"), "{says}");
    for url in [&setup, &app] {
        let refused = Harness::at(url.clone(), None).run(&["setup"])?.expect(64)?.stderr;
        ensure!(refused.contains("public.syncguard_locks belongs to other"), "{refused}");
        ensure!(refused.contains("add to the URL trusted_owner=other"), "{refused}");
        let separator = if url.contains('?') { '&' } else { '?' };
        let trusting = format!("{url}{separator}trusted_owner=other");
        Harness::at(trusting.clone(), None).run(&["setup"])?.expect(0)?;
        ensure!(findings(&trusting, 0)?.is_empty());
    }
    Ok(())
}

/// The tables that another role made before us. Its code counts its calls, also if they are rolled back.
const SQUAT: &str = "CREATE ROLE eve; CREATE ROLE app LOGIN; GRANT CREATE ON SCHEMA public TO PUBLIC; SET ROLE eve;
    CREATE SEQUENCE calls; GRANT ALL ON calls TO PUBLIC;
    CREATE FUNCTION gift(text) RETURNS int LANGUAGE plpgsql IMMUTABLE AS
      'BEGIN PERFORM nextval(''public.calls''); RETURN 1; END';
    CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM public.gift(''''); RETURN NEW; END';
    CREATE FUNCTION format(text, name) RETURNS text LANGUAGE sql AS 'SELECT public.gift('''')::text';
    CREATE FUNCTION max(bigint) RETURNS bigint LANGUAGE sql AS 'SELECT public.gift('''')::bigint';
    CREATE DOMAIN tame AS text CHECK (public.gift(VALUE) = 1);
    CREATE TABLE syncguard_locks (key text PRIMARY KEY, lock_id text NOT NULL, expires_at_ms bigint NOT NULL,
      acquired_at_ms bigint NOT NULL, fence text NOT NULL, user_key text NOT NULL);
    CREATE TABLE syncguard_fence_counters (fence_key text PRIMARY KEY, fence bigint NOT NULL DEFAULT 0, key_debug text);
    GRANT ALL ON syncguard_locks, syncguard_fence_counters TO PUBLIC;
    INSERT INTO syncguard_fence_counters VALUES ('fence:held', 7, 'held'), ('fence:free', 41, 'free');
    INSERT INTO syncguard_locks VALUES ('held', 'F-jSW78sCJhFIV6GYPa1lQ', 99999999999999, 1, '000000000000007', 'held');";

/// The statements that the doctor prints leave nothing of the former owner, and run nothing of it: neither the planner's
/// evaluation of its expressions, nor functions that fit better than PostgreSQL's own. Counters and locks stay.
#[test]
fn squatted_tables_are_made_anew_by_what_the_doctor_prints() -> Result<()> {
    let many = "CREATE INDEX x ON syncguard_locks (gift(key)); CREATE INDEX y ON syncguard_fence_counters (fence, gift(''));
        CREATE INDEX z ON syncguard_locks (user_key) WHERE gift('') = 1; ALTER TABLE syncguard_locks ENABLE ROW LEVEL SECURITY;
        CREATE STATISTICS s ON (gift('')), key FROM syncguard_locks;
        ALTER TABLE syncguard_locks ADD CHECK (gift(key) = 1), ADD COLUMN a int DEFAULT gift(''), ADD COLUMN b tame,
          ADD COLUMN c int GENERATED ALWAYS AS (gift(key)) STORED, ADD EXCLUDE USING btree ((gift(lock_id)) WITH =);
        CREATE POLICY p ON syncguard_locks USING (gift('') = 1);
        CREATE TRIGGER t BEFORE INSERT OR UPDATE OR DELETE ON syncguard_locks FOR EACH ROW EXECUTE FUNCTION f();
        CREATE RULE r AS ON INSERT TO syncguard_fence_counters DO ALSO SELECT gift('');
        CREATE TABLE leads (key text REFERENCES syncguard_locks); CREATE VIEW seen AS SELECT * FROM syncguard_locks;
        CREATE TABLE child () INHERITS (syncguard_fence_counters)";
    let before = "ALTER TABLE syncguard_locks ADD COLUMN x int DEFAULT gift('')";
    // The second case is an owner who was replaced by hand; the third could convert what is copied.
    for (made, owner) in [
        (many, "eve"),
        (before, "postgres"),
        ("ALTER TABLE syncguard_locks ALTER lock_id TYPE tame", "eve"),
    ] {
        let server = PostgresServer::start()?;
        server.psql(&format!("{SQUAT} {made}"))?;
        server.psql(&format!(
            "ALTER TABLE syncguard_locks OWNER TO {owner}; ALTER TABLE syncguard_fence_counters OWNER TO {owner}"
        ))?;
        let calls = || server.psql("SELECT last_value, is_called FROM calls");
        let called = calls()?;
        let harness = Harness::at(server.url(), None);
        harness.run(&["run", "-n", "job", "--", "true"])?.expect(64)?;
        let found = findings(&server.url(), 78)?;
        let mends = found.iter().map(|finding| finding["mend"].as_str().context("a mend"));
        let mends = mends.collect::<Result<Vec<_>>>()?;
        if made.contains("TYPE tame") {
            let anew = mends.iter().find(|mend| mend.starts_with("BEGIN")).context("anew")?;
            let refused = server.psql(anew).unwrap_err().to_string();
            ensure!(refused.contains("a column has a type of somebody else"), "{refused}");
            ensure!(calls()? == called, "called");
            continue;
        }
        for mend in mends {
            server.psql(mend)?;
        }
        harness.run(&["doctor", "--strict", "--rounds", "2"])?.expect(0)?;
        ensure!(calls()? == called, "the code of the former owner was called");
        harness.run(&["run", "-n", "held", "--", "true"])?.expect(75)?;
        let fence =
            harness.run(&["run", "-n", "free", "--", "sh", "-c", "echo $SYNCGUARD_FENCE"])?;
        ensure!(fence.expect(0)?.stdout.trim() == "000000000000042");
        server
            .psql("SET ROLE eve; INSERT INTO syncguard_locks VALUES ('', '', 0, 0, '', '')")
            .unwrap_err();
        ensure!(calls()? == called, "called after all");
    }
    Ok(())
}

/// Earlier builds made lower case of the names: the statements bring both tables together, with the higher counters.
#[test]
fn tables_in_lower_case_are_brought_together() -> Result<()> {
    let server = PostgresServer::start()?;
    let names = "lock_table=App_Locks&fence_table=App_Fences";
    let old = format!("{}?setup_schema=true&{}", server.url(), names.to_lowercase());
    let old = Harness::at(old, None);
    for _ in 0..3 {
        old.run(&["run", "-n", "job", "--", "true"])?.expect(0)?;
    }
    let url = format!("{}?{names}", server.url());
    let new = Harness::at(url.clone(), None);
    let missing = new.run(&["setup"])?.expect(64)?.stderr;
    ensure!(missing.contains("public.app_locks") && missing.contains("two holders"), "{missing}");
    for expected in ["000000000000004", "000000000000091"] {
        server.psql(&only(&findings(&url, 78)?, "red", "tables")?)?;
        ensure!(findings(&url, 0)?.is_empty());
        let fence = new.run(&["run", "-n", "job", "--", "sh", "-c", "echo $SYNCGUARD_FENCE"])?;
        ensure!(fence.expect(0)?.stdout.trim() == expected, "{expected}");
        // A process of the earlier build makes its tables again.
        old.run(&["run", "-n", "job", "--", "true"])?.expect(0)?;
        server.psql("UPDATE app_fences SET fence = 90")?;
    }
    Ok(())
}

/// A role that may only read, and a session that keeps a key from being acquired.
#[test]
fn readers_and_advisory_locks_of_keys_are_yellow() -> Result<()> {
    let server = PostgresServer::start()?;
    let url = format!("{}?setup_schema=true", server.url());
    Harness::at(url.clone(), None).run(&["run", "nightly", "--", "true"])?.expect(0)?;
    server.psql("CREATE ROLE readers; GRANT SELECT ON syncguard_locks TO readers")?;
    let mend = only(&findings(&url, 0)?, "yellow", "readers")?;
    ensure!(mend == "REVOKE SELECT ON syncguard_locks FROM readers", "{mend}");
    server.psql(&mend)?;

    let mut session = std::process::Command::new("psql")
        .args([&server.url(), "-c", "SELECT pg_advisory_lock(hashtext('nightly')), pg_sleep(600)"])
        .stdout(std::process::Stdio::null())
        .spawn()?;
    let held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted";
    while server.psql(held)?.trim() != "1" {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let found = findings(&url, 0);
    session.kill()?;
    session.wait()?;
    only(&found?, "yellow", "advisory-lock")?;
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
