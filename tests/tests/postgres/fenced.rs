//! Fenced writes: data in PostgreSQL under locks of any store.

use anyhow::{Context as _, Result, ensure};
use syncguard::Fence;
use syncguard::fenced::{Dialect, FenceStatement, check, create_table};
use syncguard_postgres::tokio_postgres::error::SqlState;
use syncguard_postgres::tokio_postgres::{Client, Error, IsolationLevel, SimpleQueryMessage};

use crate::postgres::support::{connect, shared};
use crate::support::fences::{Bound, Column, cases, printed};
use crate::support::writers::{LANES, Outcome, Writers};

/// The form of a fence, and of one attempt to write.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Rows,
    Column,
    /// A writer that does not look at the answer.
    Unchecked,
}

/// A schema with a table of fences, and one of data with a column for its fence.
async fn stage(schema: &str) -> Result<Client> {
    let client = connect(&shared().url()).await;
    let create = create_table(Dialect::Postgres, &format!("{schema}.fences"))?;
    let sql = format!(
        "CREATE SCHEMA {schema}; {create}; {create};
         CREATE TABLE {schema}.data (id text PRIMARY KEY, total bigint NOT NULL, trace text NOT NULL);
         INSERT INTO {schema}.data VALUES ('it', 0, '');
         ALTER TABLE {schema}.data ADD COLUMN fence bigint"
    );
    client.batch_execute(&sql).await?;
    Ok(client)
}

fn statement(form: Form, schema: &str) -> Result<FenceStatement> {
    let (fences, data) = (format!("{schema}.fences"), format!("{schema}.data"));
    Ok(match form {
        Form::Column => FenceStatement::for_column(Dialect::Postgres, &data, "id", "fence")?,
        _ => FenceStatement::for_rows(Dialect::Postgres, &fences)?,
    })
}

/// Reads the number, and writes the number plus one, in one transaction.
async fn write(
    client: &mut Client,
    (form, level): (Form, IsolationLevel),
    statement: &FenceStatement,
    (schema, fence): (&str, Fence),
) -> Result<Outcome, Error> {
    let transaction = client.build_transaction().isolation_level(level).start().await?;
    let row = transaction.query_one(statement.sql(), &[&"it", &fence.as_i64()]).await?;
    if check(fence, row.get::<_, i64>(0)).is_err() && form != Form::Unchecked {
        transaction.rollback().await?;
        return Ok(Outcome::Stale);
    }
    let row = transaction.query_one(&format!("SELECT total FROM {schema}.data"), &[]).await?;
    let sql = format!("UPDATE {schema}.data SET total = $1, trace = trace || $2 || ','");
    let total: i64 = row.get(0);
    transaction.execute(&sql, &[&(total + 1), &fence.get().to_string()]).await?;
    transaction.commit().await?;
    Ok(Outcome::Written)
}

/// Hundreds of writers. Returns the error of the check.
async fn crowd(form: Form, level: IsolationLevel, schema: &str) -> Result<()> {
    let client = stage(schema).await?;
    let statement = statement(form, schema)?;
    let writers = Writers::default();
    let lanes = (0..LANES).map(async |lane| {
        let mut client = connect(&shared().url()).await;
        let lane = writers.lane(lane, async |fence| {
            match write(&mut client, (form, level), &statement, (schema, fence)).await {
                Err(error) if error.code() == Some(&SqlState::T_R_SERIALIZATION_FAILURE) => {
                    ensure!(!matches!(level, IsolationLevel::ReadCommitted), "{error}");
                    Ok(Outcome::Conflict)
                }
                result => result.context("a write"),
            }
        });
        lane.await
    });
    for result in futures_util::future::join_all(lanes).await {
        result?;
    }
    let row = client.query_one(&format!("SELECT trace, total FROM {schema}.data"), &[]).await?;
    writers.check(row.get(0), row.get::<_, i64>(1).cast_unsigned())
}

#[tokio::test]
async fn nothing_stale_goes_in() -> Result<()> {
    for (form, name) in [(Form::Rows, "rows"), (Form::Column, "column")] {
        let levels = [
            IsolationLevel::ReadCommitted,
            IsolationLevel::RepeatableRead,
            IsolationLevel::Serializable,
        ];
        for (number, level) in levels.into_iter().enumerate() {
            crowd(form, level, &format!("fenced_{name}_{number}")).await?;
        }
    }
    Ok(())
}

/// The test above would notice stale writes.
#[tokio::test]
async fn without_the_check_stale_writes_go_in() -> Result<()> {
    let crowd = crowd(Form::Unchecked, IsolationLevel::ReadCommitted, "fenced_unchecked").await;
    let error = crowd.unwrap_err().to_string();
    ensure!(error.starts_with("a stale write went in"), "{error}");
    Ok(())
}

/// A key of any type; a row that is not there; a column that has no fence yet.
#[tokio::test]
async fn a_column_of_any_table() -> Result<()> {
    let schema = "fenced_any";
    let client = stage(schema).await?;
    for (kind, key) in [("bigint", "7"), ("uuid", "'00000000-0000-0000-0000-000000000007'")] {
        let sql = format!("CREATE TABLE {schema}.\"{kind}\" (\"Id\" {kind} PRIMARY KEY, f bigint)");
        client
            .batch_execute(&format!("{sql}; INSERT INTO {schema}.\"{kind}\" VALUES ({key})"))
            .await?;
        let table = format!("{schema}.{kind}");
        let statement = FenceStatement::for_column(Dialect::Postgres, &table, "Id", "f")?;
        // A prepared statement says what the types are.
        let prepared = client.prepare(statement.sql()).await?;
        ensure!(prepared.params()[0].name() == if kind == "bigint" { "int8" } else { kind });
    }
    let statement =
        FenceStatement::for_column(Dialect::Postgres, &format!("{schema}.bigint"), "Id", "f")?;
    for (fence, answer) in [(5_i64, 5_i64), (5, 5), (4, 5), (6, 6)] {
        let row = client.query_one(statement.sql(), &[&7_i64, &fence]).await?;
        ensure!(row.get::<_, i64>(0) == answer, "{fence}");
    }
    ensure!(client.query_opt(statement.sql(), &[&8_i64, &7_i64]).await?.is_none());
    Ok(())
}

/// The type that a driver declares, and the value.
fn bound(form: Bound, fence: u64) -> (&'static str, String) {
    match form {
        Bound::Integer => ("int8", fence.to_string()),
        Bound::Digits15 => ("text", format!("'{fence:015}'")),
        Bound::Digits => ("text", format!("'{fence}'")),
        Bound::Float => ("float8", format!("{fence}.0")),
        Bound::Blob => ("bytea", format!("'{fence:015}'")),
        Bound::Null => ("int8", "NULL".to_owned()),
        Bound::Word => ("text", "'many'".to_owned()),
    }
}

/// One write as a driver sends it: an error, or no row, is no answer.
async fn answer(client: &Client, sql: &str, (form, fence): (Bound, u64)) -> Option<u64> {
    let (kind, value) = bound(form, fence);
    let prepare = format!("PREPARE it_{kind} (text, {kind}) AS {sql}");
    // Prepared before, or refused for its types.
    let _ = client.batch_execute(&prepare).await;
    let rows = client.simple_query(&format!("EXECUTE it_{kind} ('it', {value})")).await.ok()?;
    rows.iter().find_map(|row| match row {
        SimpleQueryMessage::Row(row) => row.get(0)?.parse().ok(),
        _ => None,
    })
}

/// The value that a column of each type makes of each type that is bound.
#[tokio::test]
async fn whatever_is_bound_no_late_writer_passes() -> Result<()> {
    let pages = [
        printed(include_str!("../../../README.md"), "UPDATE payments SET")
            .replace("$1", "$2")
            .replace("id = 123", "id = $1"),
        printed(
            include_str!("../../../crates/syncguard/src/guide/fencing.md"),
            "UPDATE accounts SET balance = $2",
        )
        .replace("balance = $2", "balance = 5")
        .replace("$3", "$2"),
    ];
    let kinds = [
        ("bigint", Column::Wide),
        ("numeric", Column::Wide),
        ("numeric(15, 0)", Column::Wide),
        ("double precision", Column::Wide),
        ("integer", Column::Other),
        ("smallint", Column::Other),
        ("real", Column::Other),
        ("numeric(3, 0)", Column::Other),
        ("text", Column::Other),
        ("varchar(4)", Column::Other),
        ("bytea", Column::Other),
    ];
    let tables = kinds.into_iter().enumerate().map(async |(number, (kind, wide))| {
        let client = connect(&shared().url()).await;
        let data = format!("fenced_kinds.t{number}");
        let sql = "CREATE SCHEMA IF NOT EXISTS fenced_kinds";
        let _ = client.batch_execute(sql).await;
        client
            .batch_execute(&format!(
                "CREATE TABLE {data} (resource text PRIMARY KEY, state text, balance int, fence {kind})"
            ))
            .await?;
        let rows = FenceStatement::for_rows(Dialect::Postgres, &data)?;
        let column = FenceStatement::for_column(Dialect::Postgres, &data, "resource", "fence")?;
        let mut statements = vec![("rows", rows.sql().to_owned()), ("column", column.sql().to_owned())];
        // The pages' own statements are for columns that hold every fence.
        if wide == Column::Wide {
            statements.extend(pages.iter().map(|page| {
                let page = page.replace("payments", &data).replace("accounts", &data);
                let page = page.replace("id = $1", "resource = $1");
                ("page", format!("{page} RETURNING CAST($2 AS bigint)"))
            }));
        }
        for (name, sql) in statements {
            client.batch_execute("DEALLOCATE ALL").await?;
            for case in cases() {
                let fresh = match name {
                    "rows" => String::new(),
                    "column" => format!("INSERT INTO {data} VALUES ('it', '', 0)"),
                    _ => format!("INSERT INTO {data} VALUES ('it', '', 0, 0)"),
                };
                client.batch_execute(&format!("DELETE FROM {data}; {fresh}")).await?;
                let mut said = Vec::new();
                for write in case.writes {
                    let answer = answer(&client, &sql, write).await;
                    let stored = format!("SELECT coalesce(max(fence::text), '0') FROM {data}");
                    let stored: String = client.query_one(&stored, &[]).await?.get(0);
                    said.push((answer, stored.parse::<f64>()?.round().to_string().parse()?));
                }
                case.judge(&format!("{name} in {kind}"), wide, [said[0], said[1]])?;
            }
        }
        anyhow::Ok(())
    });
    for result in futures_util::future::join_all(tables).await {
        result?;
    }
    Ok(())
}
