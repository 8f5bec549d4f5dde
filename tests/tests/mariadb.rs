//! Fenced writes in the dialect of MySQL: data in MariaDB under locks of any store.

use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::thread;

use anyhow::{Result, ensure};
use syncguard::fenced::{Dialect, FenceStatement, Parameter, create_table};
use syncguard_history::Random;
use syncguard_test_services::mariadb::MariadbServer;

use crate::support::fences::{Bound, Column, Said, cases, printed};
use crate::support::writers::{LANES, WRITERS, Writers};

const LEVELS: [&str; 4] = ["READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];

/// The server of all tests here: none has a table of another.
fn shared() -> &'static MariadbServer {
    static SERVER: OnceLock<MariadbServer> = OnceLock::new();
    SERVER.get_or_init(|| MariadbServer::start().expect("a server"))
}

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

/// As the guide says for users of `GET_LOCK`.
#[test]
fn get_lock_is_not_that_of_mysql() -> Result<()> {
    let server = shared();
    let longest = "k".repeat(192);
    for (asked, said) in [
        ("GET_LOCK('free', -1)", "NULL"),
        ("GET_LOCK('free', 0)", "1"),
        ("GET_LOCK('name', 0) + IS_FREE_LOCK('Name') * 2 + IS_FREE_LOCK('name') * 4", "3"),
        (&format!("GET_LOCK('{longest}', 0)"), "1"),
    ] {
        let found = server.sql(&format!("SELECT {asked}"))?;
        ensure!(found.lines().next().map(str::trim) == Some(said), "{asked}: {found}");
    }
    let refused = server.sql(&format!("SELECT GET_LOCK('{longest}k', 0)"));
    ensure!(!refused.as_ref().is_ok_and(|said| said.trim() == "1"), "{refused:?}");
    Ok(())
}

#[test]
fn nothing_stale_goes_in() -> Result<()> {
    let server = shared();
    for level in LEVELS {
        crowd(server, level, false)?;
        crowd(server, level, true)?;
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
    // A number for a key of texts means every text that begins with it, and the highest of their fences is the answer.
    server.sql("INSERT INTO data (id, fence) VALUES ('7', 9), ('7abc', NULL)")?;
    let in_rows = format!("{}; SELECT fence FROM data WHERE id = '7'", column.sql());
    let in_rows = in_rows.replacen('?', "8", 1).replacen('?', "7", 1);
    ensure!(server.sql(&format!("{in_rows}; SELECT LAST_INSERT_ID()"))? == "9\n9");
    // Capitals and blanks count: these are three resources.
    let rows = FenceStatement::for_rows(Dialect::MySql, "test.fences")?;
    for (resource, fence) in [("order", 9), ("Order", 8), ("order ", 7)] {
        let answer = answer(&rows, resource, fence)?;
        ensure!(answer == fence.to_string(), "{resource:?}: {answer}");
    }
    Ok(())
}

/// A value that a driver or a script binds.
fn bound(form: Bound, fence: u64) -> String {
    match form {
        Bound::Integer => fence.to_string(),
        Bound::Digits15 => format!("'{fence:015}'"),
        Bound::Digits => format!("'{fence}'"),
        Bound::Float => format!("{fence}e0"),
        Bound::Blob => format!("CAST('{fence:015}' AS BINARY)"),
        Bound::Null => "NULL".to_owned(),
        Bound::Word => "'many'".to_owned(),
    }
}

/// The script of all cases: for each write a line of the answer and of the fence that is stored then.
fn script(statement: &str, fresh: &str, answer: &str) -> String {
    // The client goes on after an error, of which the count of rows is -1.
    let write = |(form, fence)| {
        format!(
            "SET @fence = {}; DO LAST_INSERT_ID(0); EXECUTE fenced {answer},
             (SELECT CAST(COALESCE(MAX(fence + 0), 0) AS SIGNED) FROM kinds);\n",
            bound(form, fence)
        )
    };
    let begin = format!("PREPARE fenced FROM \"{statement}\"; SET @resource = 'it'; BEGIN;\n");
    let cases = cases()
        .map(|case| format!("DELETE FROM kinds; {fresh};\n{}", case.writes.map(write).concat()));
    std::iter::once(begin).chain(cases).collect()
}

/// Without the strict mode, the server clamps, rounds and cuts what does not fit into a column.
#[test]
fn whatever_is_bound_no_late_writer_passes() -> Result<()> {
    let server = shared();
    let rows = FenceStatement::for_rows(Dialect::MySql, "kinds")?;
    let column = FenceStatement::for_column(Dialect::MySql, "kinds", "resource", "fence")?;
    let page = include_str!("../../crates/syncguard/src/guide/from_mysql.md");
    let page = printed(page, "UPDATE payments SET").replace("payments", "kinds");
    let page = page.replace("id = 123", "resource = 'it'");
    let last_id = |statement: &FenceStatement| {
        format!("USING {}; SELECT IF(ROW_COUNT() < 0, 0, LAST_INSERT_ID())", variables(statement))
    };
    let row = "INSERT INTO kinds (resource, fence) VALUES ('it', NULL)";
    let statements = [
        ("rows", rows.sql(), "DO 0", last_id(&rows)),
        ("column", column.sql(), row, last_id(&column)),
        ("page", &page, "INSERT INTO kinds (resource) VALUES ('it')", {
            "USING @fence, @fence; SELECT IF(ROW_COUNT() > 0, CAST(@fence AS SIGNED), 0)".to_owned()
        }),
    ];
    let wide = ["BIGINT", "BIGINT UNSIGNED", "DECIMAL(15, 0)", "DOUBLE", "VARCHAR(20)"];
    let narrow = ["INT", "INT UNSIGNED", "TINYINT", "FLOAT", "DECIMAL(3, 0)", "VARBINARY(15)"];
    let kinds = wide.map(|kind| (kind, Column::Wide)).into_iter();
    let kinds = kinds.chain(narrow.map(|kind| (kind, Column::Other)));
    for ((kind, wide), mode) in
        kinds.flat_map(|kind| ["STRICT_ALL_TABLES", ""].map(|it| (kind, it)))
    {
        for (name, sql, fresh, answer) in &statements {
            // Rows have a table of their own, and the page's statement has the column of the page.
            if *name != "column" && kind != "BIGINT" {
                continue;
            }
            let said = server.sql(&format!(
                "SET sql_mode = '{mode}'; CREATE OR REPLACE TABLE kinds
                 (resource varchar(9) PRIMARY KEY, state text, fence {kind} DEFAULT 0) ENGINE = InnoDB; {}",
                script(sql, fresh, answer)
            ))?;
            let lines = said.lines().filter_map(|line| line.split_once('\t'));
            let answers: Vec<Said> = lines
                .map(|(answer, stored)| (answer.parse().ok(), stored.parse().unwrap_or(0)))
                .collect();
            for (case, said) in cases().zip(answers.chunks(2)) {
                case.judge(&format!("{name} in {kind}, mode '{mode}'"), wide, [said[0], said[1]])?;
            }
            ensure!(answers.len() == 2 * cases().count(), "{said}");
        }
    }
    Ok(())
}
