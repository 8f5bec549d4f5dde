//! Checks if the database can forget what it has confirmed, and if others can change it.

use std::fmt;

use syncguard_core::LockError;
use syncguard_core::authoring::cancel::Caller;
use syncguard_core::contract::SignalStatus;
use tokio_postgres::types::Type;

use crate::inner::Inner;
use crate::pool::{Lane, Param};
use crate::record::column;
use crate::settings::Settings;
use crate::statements::{Statement, render};

/// Findings that can make the database forget, change or hide a granted lock, or a fence: then one lock can have two
/// holders, and a fence can come twice.
///
/// [`connect`](crate::PostgresBackend::connect) logs each finding as a warning;
/// [`with_strict_durability`](crate::PostgresOptions::with_strict_durability) refuses to work instead.
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
}

/// A finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DurabilityRisk {
    /// The server is a standby: it grants no locks, and its data may be old.
    Standby,
    /// The lock table is not logged: a crash empties it.
    UnloggedLockTable,
    /// The fence table is not logged: a crash empties it, and fences repeat.
    UnloggedFenceTable,
    /// `fsync` is off: a crash of the machine can lose or damage anything.
    FsyncOff,
    /// `full_page_writes` is off: a crash of the machine can damage pages.
    FullPageWritesOff,
    /// A table is no ordinary table: a view, a partitioned table or another table's parent, say.
    SpecialTable,
    /// A table, or the schema `"$user"` in which it was found, belongs to a role that our role has no reason to trust:
    /// it is neither our role, a role that our role may become, the owner of the table's schema or of the database, nor
    /// a superuser. Its owner decides what happens to locks, and which code runs as our role.
    ForeignTable,
    /// A table has a trigger or a rule, or a foreign key leads to it: they can change what is written, and their code
    /// runs as our role.
    ActingTable,
    /// Another role may put triggers or foreign keys on a table.
    OpenTable,
    /// Row-level security is on for our role: a held lock could look free, so the backend refuses all work.
    HiddenRows,
}

impl DurabilityRisk {
    /// The risk that `hazards.sql` calls by this word.
    pub(crate) fn of_word(word: &str) -> Option<Self> {
        Some(match word {
            "special" => Self::SpecialTable,
            "foreign" => Self::ForeignTable,
            "acts" => Self::ActingTable,
            "open" => Self::OpenTable,
            "hides" => Self::HiddenRows,
            _ => return None,
        })
    }
}

impl fmt::Display for DurabilityRisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Standby => "the server is a standby",
            Self::UnloggedLockTable => "the lock table is unlogged or temporary",
            Self::UnloggedFenceTable => "the fence table is unlogged or temporary",
            Self::FsyncOff => "fsync is off",
            Self::FullPageWritesOff => "full_page_writes is off",
            Self::SpecialTable => "a view or another special table has the name of a table",
            Self::ForeignTable => {
                "a table, or the schema of this role's name, belongs to another role"
            }
            Self::ActingTable => "a table has a trigger or a rule, or a foreign key leads to it",
            Self::OpenTable => "another role may put triggers on a table",
            Self::HiddenRows => "row-level security may hide rows of a table from this role",
        })
    }
}

impl DurabilityReport {
    /// Returns an error in strict mode, and else logs a warning.
    pub(crate) fn enforce(&self, strict: bool) -> Result<(), LockError> {
        if self.risks.is_empty() {
            return Ok(());
        }
        let risks: Vec<String> = self.risks.iter().map(ToString::to_string).collect();
        let risks = risks.join(", ");
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
}

impl Inner {
    /// Checks the server, and the tables if they exist.
    pub(crate) async fn durability(&self) -> Result<DurabilityReport, LockError> {
        let tables = &self.settings.tables;
        let (locks, fences) = (tables.locks.quoted(), tables.fences.quoted());
        let parameters = [Param::Text(&locks), Param::Text(&fences)];
        let answer = self
            .pool
            .query(Lane::Contender, &Caller::new(None), &inspection(&self.settings), &parameters)
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
        let words: Vec<&str> = column(&row, "hazards")?;
        let risks = found.into_iter().filter_map(|(found, risk)| found.then_some(risk));
        let risks = risks.chain(words.into_iter().filter_map(DurabilityRisk::of_word)).collect();
        let open_schema = column(&row, "open_schema")?;
        self.keeps_holders(!column::<bool>(&row, "lacks_holders")?);
        Ok(DurabilityReport { risks, signals: self.signals.status(), open_schema })
    }
}

fn inspection(settings: &Settings) -> Statement {
    Statement {
        sql: render(include_str!("sql/durability.sql"), settings),
        types: &[Type::TEXT, Type::TEXT],
        writes: false,
        written: None,
        repeats_id: false,
        is_sent_again: true,
        yields_to_rivals: false,
    }
}
