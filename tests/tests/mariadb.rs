//! Fenced writes in the dialect of MySQL: data in MariaDB under locks of any store.

use std::sync::atomic::Ordering;
use std::thread;

use anyhow::{Result, ensure};
use syncguard::fenced::{Dialect, FenceStatement, Parameter, create_table};
use syncguard_history::Random;
use syncguard_test_services::mariadb::MariadbServer;

use crate::support::writers::{LANES, WRITERS, Writers};

const LEVELS: [&str; 4] = ["READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];

/// The variables of a session for the parameters of a statement, in their order.
fn variables(statement: &FenceStatement) -> String {
    let names = statement.parameters().iter().map(|parameter| match parameter {
        Parameter::Fence => "@fence",
        _ => "@resource",
    });
    names.collect::<Vec<_>>().join(", ")
}

/// One writer. Reads the number, and writes the number plus one, in one transaction, if the answer is its fence. After an
/// error the client goes on, so the answer of an earlier statement is forgotten first.
fn write(statement: &FenceStatement, fence: u64) -> String {
    format!(
        "DO LAST_INSERT_ID(0); SET @fence = {fence}; START TRANSACTION; EXECUTE fenced USING {};
         SET @may = LAST_INSERT_ID() = {fence}; SELECT total INTO @total FROM data;
         UPDATE data SET total = @total + 1, trace = CONCAT(trace, @fence, ',') WHERE @may; COMMIT;\n",
        variables(statement)
    )
}

fn crowd(server: &MariadbServer, level: &str, is_column: bool) -> Result<()> {
    let create = create_table(Dialect::MySql, "test.fences")?;
    server.sql(&format!(
        "DROP TABLE IF EXISTS fences, data; {create}; {create};
         CREATE TABLE data (id varchar(9) PRIMARY KEY, total bigint, trace mediumtext) ENGINE = InnoDB;
         INSERT INTO data VALUES ('it', 0, ''); ALTER TABLE data ADD COLUMN fence bigint"
    ))?;
    let statement = if is_column {
        FenceStatement::for_column(Dialect::MySql, "data", "id", "fence")?
    } else {
        FenceStatement::for_rows(Dialect::MySql, "test.fences")?
    };
    let (mut random, writers) = (Random::new(Random::seed()), Writers::default());
    let begin = format!(
        "SET SESSION TRANSACTION ISOLATION LEVEL {level}; SET @resource = 'it';
         PREPARE fenced FROM '{}';\n",
        statement.sql()
    );
    let mut lanes = vec![begin; usize::try_from(LANES)?];
    for number in 0..WRITERS / LANES * LANES {
        let lane = usize::try_from(number % LANES)?;
        lanes[lane] += &write(&statement, writers.fence(&mut random));
    }
    let said = thread::scope(|scope| {
        let runs: Vec<_> = lanes.iter().map(|lane| scope.spawn(|| server.sql(lane))).collect();
        runs.into_iter().map(|run| run.join().expect("a lane")).collect::<Result<Vec<_>>>()
    })?;
    // Another error than a deadlock would hide that nothing is tested.
    let errors: Vec<_> = said.iter().flat_map(|said| said.lines()).collect();
    ensure!(errors.iter().all(|line| line.contains("ERROR 1213")), "{errors:?}");
    let found = server.sql("SELECT total, trace FROM data")?;
    let (total, trace) = found.split_once('\t').unwrap_or_default();
    let written = trace.matches(',').count() as u64;
    writers.written.store(written, Ordering::Relaxed);
    let conflicts = errors.len() as u64;
    writers.conflicts.store(conflicts, Ordering::Relaxed);
    writers.stale.store(WRITERS / LANES * LANES - written, Ordering::Relaxed);
    ensure!(conflicts < 100, "too many deadlocks: {errors:?}");
    writers.check(trace, total.parse()?)
}

#[test]
fn nothing_stale_goes_in() -> Result<()> {
    let server = MariadbServer::start()?;
    for level in LEVELS {
        crowd(&server, level, false)?;
        crowd(&server, level, true)?;
    }
    let answer = |statement: &FenceStatement, resource: &str, fence: u64| {
        server.sql(&format!(
            "SET @resource = '{resource}'; SET @fence = {fence}; PREPARE fenced FROM '{}';
             DO LAST_INSERT_ID(0); EXECUTE fenced USING {}; SELECT LAST_INSERT_ID()",
            statement.sql(),
            variables(statement)
        ))
    };
    // No row has the key: the last insert id says so.
    let column = FenceStatement::for_column(Dialect::MySql, "data", "id", "fence")?;
    ensure!(answer(&column, "other", 9)? == "0");
    // Capitals and blanks count: these are three resources.
    let rows = FenceStatement::for_rows(Dialect::MySql, "test.fences")?;
    for (resource, fence) in [("order", 9), ("Order", 8), ("order ", 7)] {
        let answer = answer(&rows, resource, fence)?;
        ensure!(answer == fence.to_string(), "{resource:?}: {answer}");
    }
    Ok(())
}
