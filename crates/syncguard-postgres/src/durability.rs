//! Checks if the database can forget what it has confirmed, and if others can change it.

use std::sync::atomic::Ordering;

use syncguard_core::LockError;
use syncguard_core::authoring::cancel::Caller;
use syncguard_core::contract::SignalStatus;
use tokio_postgres::types::Type;

use crate::inner::Inner;
use crate::pool::{Lane, Param};
use crate::record::column;
use crate::risk::{DurabilityRisk, printable};
use crate::settings::Settings;
use crate::statements::{Statement, render};

/// Findings that can make the database forget, change or hide a granted lock, or a fence: then one lock can have two
/// holders, and a fence can come twice.
///
/// [`connect`](crate::PostgresBackend::connect) refuses tables that [others can act
/// on](DurabilityRisk::is_always_refused), and logs each other finding as a warning;
/// [`with_strict_durability`](crate::PostgresOptions::with_strict_durability) refuses to work instead. Over a pool of your
/// own, the first operation does so.
///
/// No query can find one risk: a failover to a standby that had not received the last commits. If that matters, let
/// commits wait for a standby (`synchronous_standby_names`); the backend never commits with less than
/// `synchronous_commit = on`, whatever its session has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DurabilityReport {
    /// The findings; empty is good.
    pub risks: Vec<DurabilityRisk>,
    /// The state of signals: if they fail, waiters poll, which is no risk.
    pub signals: SignalStatus,
    /// A schema in which the session looks for the tables, and in which other roles may create objects: a table
    /// that another role makes there first may be taken for a table of the backend, and its triggers run as the role
    /// of the backend. Also the schema `"$user"` if it belongs to another role. `None` is good.
    pub open_schema: Option<String>,
    /// The index on the expiry that the TypeScript library and earlier versions make. No statement reads it, and with it
    /// an extend writes twice as much, and renewals do not go together. `None` is good.
    pub superfluous_index: Option<String>,
}

impl DurabilityReport {
    /// Returns an error for what is always refused, and in strict mode for everything. Otherwise, logs a warning.
    pub(crate) fn enforce(&self, strict: bool) -> Result<(), LockError> {
        self.refuse_others()?;
        if self.risks.is_empty() {
            return Ok(());
        }
        let risks = listed(self.risks.iter());
        if strict {
            return Err(LockError::invalid_argument(format!(
                "strict durability refuses this database: {risks}"
            )));
        }
        tracing::warn!(
            backend = "postgres",
            risks,
            "the database can forget a lock it has granted"
        );
        Ok(())
    }

    /// Returns an error if others can act on the tables.
    pub(crate) fn refuse_others(&self) -> Result<(), LockError> {
        let mut refused = self.risks.iter().filter(|risk| risk.is_always_refused()).peekable();
        let Some(remedy) = refused.peek().map(|risk| printable(&risk.remedy())) else {
            return Ok(());
        };
        Err(LockError::invalid_argument(format!(
            "the tables are not safe for locks: {}. {remedy}",
            listed(refused)
        )))
    }
}

fn listed<'a>(risks: impl Iterator<Item = &'a DurabilityRisk>) -> String {
    risks.map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// The words of the server about itself and the tables.
pub(crate) struct Inspection {
    pub(crate) report: DurabilityReport,
    pub(crate) tables: TableState,
    pub(crate) lacks_holders: bool,
}

/// The state of the tables, for set-up.
#[derive(Debug)]
pub(crate) struct TableState {
    pub(crate) word: String,
    /// The schema or the table that stands in the way, and its owner.
    pub(crate) place: String,
    pub(crate) owner: String,
    /// Our role, quoted for SQL like all names here.
    pub(crate) role: String,
    pub(crate) locks: String,
    pub(crate) fences: String,
}

impl Inner {
    /// Checks the server, and the tables if they exist. This reads the server's catalogs alone: it runs no code of others.
    pub(crate) async fn inspect(&self, caller: &Caller) -> Result<Inspection, LockError> {
        let tables = &self.settings.tables;
        let (locks, fences) = (tables.locks.quoted(), tables.fences.quoted());
        let parameters = [&locks, &fences, &self.settings.trusted_owner];
        let parameters = parameters.map(|text| Param::Text(text));
        let answer = self
            .pool
            .query(Lane::Contender, caller, &inspection(&self.settings), &parameters)
            .await?;
        let row =
            answer.row.ok_or_else(|| LockError::internal("PostgreSQL did not say what it is"))?;
        let off = |setting| Ok::<_, LockError>(column::<&str>(&row, setting)? == "off");
        let unlogged = |table| {
            Ok::<_, LockError>(column::<Option<&str>>(&row, table)?.is_some_and(|kind| kind != "p"))
        };
        let found = [
            (column(&row, "is_in_recovery")?, DurabilityRisk::Standby),
            (unlogged("locks_persistence")?, DurabilityRisk::UnloggedLockTable),
            (unlogged("fences_persistence")?, DurabilityRisk::UnloggedFenceTable),
            (off("fsync")?, DurabilityRisk::FsyncOff),
            (off("full_page_writes")?, DurabilityRisk::FullPageWritesOff),
        ];
        let superfluous_index: Option<String> = column(&row, "superfluous_index")?;
        self.extends_alone.store(superfluous_index.is_some(), Ordering::Relaxed);
        let words: Option<Vec<String>> = column(&row, "hazards")?;
        let risks = found.into_iter().filter_map(|(found, risk)| found.then_some(risk));
        let risks = risks.chain(DurabilityRisk::of_words(&words.unwrap_or_default())).collect();
        let text = |name| {
            Ok::<_, LockError>(printable(
                &column::<Option<String>>(&row, name)?.unwrap_or_default(),
            ))
        };
        Ok(Inspection {
            report: DurabilityReport {
                risks,
                signals: self.signals.status(),
                open_schema: column(&row, "open_schema")?,
                superfluous_index,
            },
            tables: TableState {
                word: text("state")?,
                place: text("place")?,
                owner: text("owner")?,
                role: text("role")?,
                locks,
                fences,
            },
            lacks_holders: column(&row, "lacks_holders")?,
        })
    }

    /// Checks the server and the tables, and notes whether holders can be stored.
    pub(crate) async fn durability(&self, caller: &Caller) -> Result<DurabilityReport, LockError> {
        let found = self.inspect(caller).await?;
        self.keeps_holders(!found.lacks_holders);
        Ok(found.report)
    }
}

fn inspection(settings: &Settings) -> Statement {
    Statement {
        sql: render(include_str!("sql/inspect.sql"), settings),
        types: &[Type::TEXT, Type::TEXT, Type::TEXT],
        writes: false,
        written: None,
        repeats_id: false,
        is_sent_again: true,
        yields_to_rivals: false,
    }
}
