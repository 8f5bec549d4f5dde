//! Examines PostgreSQL.

mod anew;
mod catalog;
mod names;
mod pooler;

use syncguard::DynBackend;
use syncguard::authoring::backend_url::BackendUrl;
use syncguard::postgres::{DurabilityRisk, PostgresBackend};

use self::catalog::Catalog;
use self::names::{Table, Tables};
use super::examination::{self, Examination};
use super::finding::Finding;
use crate::exit::Failure;
use crate::shell_messages::SETUP;

pub(super) async fn examine(url: &str) -> Result<Examination, Failure> {
    let parsed = BackendUrl::parse(url)?;
    let tables = Tables::of(&parsed)?;
    let trusted = parsed.text("trusted_owner")?.unwrap_or_default();
    // `connect` refuses what the doctor explains.
    let backend = PostgresBackend::unchecked(url)?;
    let report = backend.durability_report().await?;
    let is_safe = !report.risks.iter().any(DurabilityRisk::is_always_refused);
    let asks = |name| Ok::<_, Failure>(parsed.flag(name)? == Some(true));
    if is_safe && (asks("setup_schema")? || asks("upgrade_schema")?) {
        backend.setup_schema().await?;
    }
    let catalog = Catalog { backend: &backend, tables: &tables, trusted: &trusted };
    let mut findings = of_others(&report.risks, &catalog).await;
    // The statements that mend unsafe tables also make the missing ones.
    let missing = if is_safe { catalog.missing_tables().await } else { None };
    findings.extend(missing.map(|missing| of_missing_tables(&missing)));
    let refused: Vec<String> = report
        .risks
        .iter()
        .filter(|risk| risk.is_always_refused())
        .map(ToString::to_string)
        .collect();
    let dynamic = DynBackend::new(backend.clone());
    for found in examination::health(&dynamic).await? {
        let mend = match (found.about, &report.open_schema) {
            // Said above, with the statements.
            _ if refused.contains(&found.says) => continue,
            ("schema", Some(schema)) => Some(catalog.close(schema).await),
            _ => None,
        };
        findings.push(found.with_mend(mend));
    }
    findings.extend(catalog.encoding().await.and_then(|encoding| of_encoding(&encoding)));
    // Even to make an index lets the server evaluate what is on the table.
    if is_safe && catalog.lacks_index().await {
        let says = "the lock table has no index on lock_id: each release reads all of it";
        let mend = format!("CREATE UNIQUE INDEX ON {} (lock_id)", tables.locks);
        findings.push(Finding::red("index", says, mend));
    }
    if let Some(mend) = catalog.readers().await {
        let says = "roles that use no locks may read keys and lock ids";
        findings.push(Finding::yellow("readers", says, mend));
    }
    // The names of keys are in a table, which is not read if it may run code.
    let sessions = if is_safe { catalog.sessions_in_the_way().await } else { None };
    if let Some(sessions) = sessions {
        let says = format!(
            "the session {sessions} holds the advisory lock of a key, as pg_advisory_lock(hashtext(KEY)): nobody can acquire that key meanwhile"
        );
        let mend = "let that program take another number: see the guide's page on advisory locks";
        findings.push(Finding::yellow("advisory-lock", says, mend));
    }
    if let Some(mend) = catalog.grants().await {
        let says = "this role may not do all that locks need";
        findings.push(Finding { is_refusal: true, ..Finding::red("permissions", says, mend) });
    }
    let is_unprepared = parsed.flag("unprepared_statements")? == Some(true);
    findings.extend(pooler::examine(&backend, is_unprepared).await);
    Ok(Examination {
        backend: dynamic,
        findings,
        // The finding about permissions has the exact grants.
        access: None,
        round_trips: (1, 1),
    })
}

fn of_missing_tables(missing: &[&Table]) -> Finding {
    let names: Vec<String> = missing.iter().map(ToString::to_string).collect();
    let says = match missing.len() {
        1 => format!("the table {} is missing", names.join("")),
        _ => format!("the tables {} are missing", names.join(" and ")),
    };
    Finding { is_refusal: true, ..Finding::red("tables", says, SETUP) }
}

fn of_encoding(encoding: &str) -> Option<Finding> {
    let what = match encoding {
        "UTF8" => return None,
        "SQL_ASCII" => "text is stored without being checked",
        _ => "keys with characters that it lacks are refused",
    };
    let says = format!("the database has the encoding {encoding} and not UTF8: {what}");
    let mend = "CREATE DATABASE name ENCODING 'UTF8' TEMPLATE template0, and its name in the URL";
    Some(Finding::yellow("encoding", says, mend))
}

/// Tables that others can change or hide. Not even the doctor takes a lock in them.
async fn of_others(risks: &[DurabilityRisk], catalog: &Catalog<'_>) -> Vec<Finding> {
    let (mut findings, mut old, mut texts) = (Vec::new(), Vec::new(), Vec::new());
    let mut trust = None;
    for risk in risks {
        let mend = match risk {
            DurabilityRisk::ForeignSchema { schema, .. } => {
                // It has the name of this role.
                format!("ALTER SCHEMA {schema} OWNER TO {schema}")
            }
            DurabilityRisk::OpenTable { table, roles, .. } => {
                format!("REVOKE TRIGGER, REFERENCES ON {table} FROM {roles}")
            }
            DurabilityRisk::HiddenRows { table, .. } => {
                format!("ALTER TABLE {table} DISABLE ROW LEVEL SECURITY")
            }
            DurabilityRisk::ForeignTable { table, owner, .. }
            | DurabilityRisk::SpecialTable { table, owner, .. } => {
                trust = Some(owner);
                old.push(table.as_str());
                texts.push(risk.to_string());
                continue;
            }
            // The owner can be one of ours, and the code somebody else's.
            DurabilityRisk::ActingTable { table, .. } => {
                old.push(table.as_str());
                texts.push(risk.to_string());
                continue;
            }
            DurabilityRisk::FoldedTable { folded, .. } => {
                old.push(folded.as_str());
                texts.push(risk.to_string());
                continue;
            }
            _ => continue,
        };
        let finding = Finding::red("tables", risk.to_string(), mend);
        findings.push(Finding { is_refusal: true, ..finding });
    }
    if !old.is_empty() {
        old.sort_unstable();
        old.dedup();
        let trust = trust.map_or_else(String::new, |owner| {
            format!(". If you know who made this and trust it, add trusted_owner={owner} to the URL instead")
        });
        let says = format!(
            "{}. Stop the programs that use these tables, and make them anew as an administrator{trust}",
            texts.join("; ")
        );
        let mend = anew::statements(catalog, &old).await.unwrap_or_else(|| OTHER_NAMES.to_owned());
        findings.push(Finding { is_refusal: true, ..Finding::red("tables", says, mend) });
    }
    findings
}

const OTHER_NAMES: &str = "name other tables with lock_table and fence_table in the URL, and add setup_schema=true; their fences begin anew";
