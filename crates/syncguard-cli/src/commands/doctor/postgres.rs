//! PostgreSQL.

use syncguard::authoring::backend_url::BackendUrl;
use syncguard::postgres::{DurabilityRisk, PostgresBackend};
use syncguard::{DynBackend, Key, LockBackend as _, LockError, SignalStatus, WatchRequest};

use super::Examined;
use super::finding::Finding;
use super::pooler;
use super::probe::KEY;
use crate::exit::Failure;

pub(super) async fn examine(url: &str) -> Result<Examined, Failure> {
    let parsed = BackendUrl::parse(url)?;
    let locks = table(&parsed, "lock_table", "syncguard_locks")?;
    let fences = table(&parsed, "fence_table", "syncguard_fence_counters")?;
    let backend = PostgresBackend::connect(url).await?;
    // Signals are tried when somebody waits.
    let _watch = backend.watch(WatchRequest::new(Key::new(KEY)?)).await;
    let report = backend.durability_report().await?;
    let risks = report.risks.iter();
    let mut findings: Vec<Finding> = risks.map(|risk| finding(*risk, &locks, &fences)).collect();
    if findings.is_empty() {
        findings
            .push(Finding::green("durability", "locks and fences survive a crash of the server"));
    }
    if report.signals == SignalStatus::Failing {
        let says = "those who wait do not hear of releases, and look from time to time";
        let mend = "connect past the pooler, or add signals=false to the URL";
        findings.push(Finding::yellow("signals", says, mend));
    }
    if let Some(schema) = report.open_schema {
        let says =
            format!("others may create in schema {schema:?}, where the tables are looked for");
        let mend = format!("REVOKE CREATE ON SCHEMA {schema} FROM PUBLIC");
        findings.push(Finding::yellow("schema", says, mend));
    }
    findings.extend(index(&backend, &locks).await);
    if parsed.flag("unprepared_statements")? != Some(true) {
        findings.extend(pooler::examine(&backend).await);
    }
    Ok(Examined { backend: DynBackend::new(backend), findings, round_trips: (1, 1) })
}

fn table(url: &BackendUrl<'_>, name: &str, default: &str) -> Result<String, LockError> {
    Ok(url.text(name)?.unwrap_or_else(|| default.to_owned()))
}

/// Whether a lock is found by its id without reading the whole table.
async fn index(backend: &PostgresBackend, locks: &str) -> Option<Finding> {
    let quoted = locks.replace('"', "\"\"").replace('\'', "''").replace('.', "\".\"");
    let sql = format!(
        "SELECT pg_catalog.to_regclass('\"{quoted}\"') IS NULL OR EXISTS (
           SELECT FROM pg_catalog.pg_index i JOIN pg_catalog.pg_attribute a
             ON a.attrelid OPERATOR(pg_catalog.=) i.indrelid
             AND a.attnum OPERATOR(pg_catalog.=) i.indkey[0]
           WHERE i.indrelid OPERATOR(pg_catalog.=) pg_catalog.to_regclass('\"{quoted}\"')
             AND i.indisvalid AND a.attname OPERATOR(pg_catalog.=) 'lock_id')"
    );
    // What cannot be asked is not said: whether locks work at all is tried next.
    let client = backend.pool().get().await.ok()?;
    let rows = client.query_typed(&sql, &[]).await.ok()?;
    if rows.first()?.try_get::<_, bool>(0).ok()? {
        return None;
    }
    let says = "the lock table has no index on lock_id: each release reads all of it";
    Some(Finding::red("index", says, format!("CREATE UNIQUE INDEX ON {locks} (lock_id)")))
}

fn finding(risk: DurabilityRisk, locks: &str, fences: &str) -> Finding {
    let (about, mend) = match risk {
        DurabilityRisk::Standby => ("role", "use the URL of the primary".to_owned()),
        DurabilityRisk::UnloggedLockTable => ("tables", format!("ALTER TABLE {locks} SET LOGGED")),
        DurabilityRisk::UnloggedFenceTable => {
            ("tables", format!("ALTER TABLE {fences} SET LOGGED"))
        }
        DurabilityRisk::FsyncOff => ("fsync", reload("fsync")),
        DurabilityRisk::FullPageWritesOff => ("full_page_writes", reload("full_page_writes")),
        _ => ("durability", "see the documentation of syncguard-postgres".to_owned()),
    };
    Finding::red(about, risk.to_string(), mend)
}

fn reload(setting: &str) -> String {
    format!("ALTER SYSTEM SET {setting} = on; SELECT pg_reload_conf()")
}
