//! Checks if the database can forget what it has confirmed.

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

/// Findings that can make the database forget a granted lock, or a fence: then one lock can have two holders, and
/// a fence can come twice.
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
    /// of the backend. `None` is good.
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
}

impl fmt::Display for DurabilityRisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Standby => "the server is a standby",
            Self::UnloggedLockTable => "the lock table is unlogged or temporary",
            Self::UnloggedFenceTable => "the fence table is unlogged or temporary",
            Self::FsyncOff => "fsync is off",
            Self::FullPageWritesOff => "full_page_writes is off",
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
        let off = |index| Ok::<_, LockError>(column::<&str>(&row, index)? == "off");
        let unlogged = |index| {
            Ok::<_, LockError>(column::<Option<&str>>(&row, index)?.is_some_and(|kind| kind != "p"))
        };
        let found = [
            (column(&row, 0)?, DurabilityRisk::Standby),
            (unlogged(3)?, DurabilityRisk::UnloggedLockTable),
            (unlogged(4)?, DurabilityRisk::UnloggedFenceTable),
            (off(1)?, DurabilityRisk::FsyncOff),
            (off(2)?, DurabilityRisk::FullPageWritesOff),
        ];
        let risks = found.into_iter().filter_map(|(found, risk)| found.then_some(risk)).collect();
        let open_schema = column(&row, 5)?;
        if column(&row, 6)? {
            self.keeps_no_holders();
        }
        Ok(DurabilityReport { risks, signals: self.signals.status(), open_schema })
    }
}

fn inspection(settings: &Settings) -> Statement {
    Statement {
        sql: render(include_str!("sql/durability.sql"), settings),
        types: &[Type::TEXT, Type::TEXT],
        writes: false,
        has_deadline: false,
        repeats_id: false,
        is_sent_again: true,
        yields_to_rivals: false,
    }
}
