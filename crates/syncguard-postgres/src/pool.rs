//! Carries out one statement on a connection of the pool, with every wait bounded.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use deadpool_postgres::{Client, Pool};
use syncguard_core::authoring::StoreClock;
use syncguard_core::authoring::cancel::Caller;
use syncguard_core::{LockError, Timestamp, Ttl};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};
use tokio_postgres::Row;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use crate::busy::BusyConnections;
use crate::connection::Connection;
use crate::elsewhere::Elsewhere;
use crate::error::{self, Failure, Phase, Remedy};
use crate::record::{AnyValue, column, written_time};
use crate::settings::Settings;
use crate::signals::Signals;
use crate::statements::{Statement, render};

/// The pool, and the rules of its use.
pub(crate) struct StatementPool {
    pool: Pool,
    /// Connections that contenders may take. Contenders queue here, not at the pool, and leave one
    /// connection to holders that want to extend or release their lock.
    contenders: Arc<Semaphore>,
    /// Connections for extends that go alone. Many of them at once leave some for all other callers.
    extends: Arc<Semaphore>,
    busy: Arc<BusyConnections>,
    pool_wait: Duration,
    statement: Duration,
    unprepared: bool,
    clock: StoreClock,
    /// The statement that asks the server for its time.
    time: String,
    pub(crate) elsewhere: Elsewhere,
}

/// The kind of caller that asks for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// A caller that wants a lock, or only looks at locks.
    Contender,
    /// A holder that extends one lock.
    Extend,
    /// A holder.
    Holder,
}

/// The answer to a statement.
pub(crate) struct Answer {
    /// The first row; most statements have only one.
    pub(crate) row: Option<Row>,
    /// The other rows of a statement that lists.
    pub(crate) more: Vec<Row>,
    /// The error of an earlier connection that was lost before this answer came on another one; the statement
    /// may have been carried out twice.
    pub(crate) lost: Option<LockError>,
    /// When the statement was sent.
    pub(crate) sent: Instant,
    /// The deadline of the statement, if it has one: the server carries out no sending of it later than that.
    pub(crate) deadline: Option<Timestamp>,
}

impl StatementPool {
    pub(crate) fn new(pool: Pool, settings: &Settings) -> Self {
        let connections = pool.status().max_size;
        let turns = |kept| {
            let turns = connections.saturating_sub(kept).clamp(1, Semaphore::MAX_PERMITS);
            Arc::new(Semaphore::new(turns))
        };
        Self {
            elsewhere: Elsewhere::new(pool.clone(), Signals::new(settings)),
            pool,
            contenders: turns(1),
            extends: turns((connections / 4).max(1)),
            busy: Arc::new(BusyConnections::new(settings.cancel.clone())),
            pool_wait: settings.pool_wait,
            statement: settings.statement,
            unprepared: settings.unprepared,
            clock: StoreClock::default(),
            time: render(include_str!("sql/time.sql"), settings),
        }
    }

    /// The estimated clock of the server.
    pub(crate) fn clock(&self) -> &StoreClock {
        &self.clock
    }

    /// The limit for the answer to a statement.
    pub(crate) fn statement_timeout(&self) -> Duration {
        self.statement
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Carries out a statement as [`query_or_failure`](Self::query_or_failure) does.
    pub(crate) async fn query(
        &self,
        lane: Lane,
        caller: &Caller,
        statement: &Statement,
        parameters: &[Param<'_>],
    ) -> Result<Answer, LockError> {
        let answer = self.query_or_failure(lane, caller, statement, parameters).await;
        answer.map_err(|failure| failure.error)
    }

    /// Carries out a statement. It is sent again after a conflict with other sessions, which left nothing
    /// behind; on another connection if its connection is lost (but for an extend); and once more if the server
    /// finds it too late, because the server's clock was set since the last answer.
    ///
    /// Connections die unnoticed while they wait in the pool, all of them at once if a firewall
    /// forgets them or the server moves. So each connection of the pool may fail, and then a new connection once.
    pub(crate) async fn query_or_failure(
        &self,
        lane: Lane,
        caller: &Caller,
        statement: &Statement,
        parameters: &[Param<'_>],
    ) -> Result<Answer, Failure> {
        const CONFLICTS: u32 = 5;
        let last_start = Instant::now() + self.statement;
        let (mut conflicts, mut new_ones_lost, mut was_late) = (0, 0, false);
        let mut lost: Option<LockError> = None;
        loop {
            let failure = match self.send(lane, caller, statement, parameters).await {
                Ok(answer) if self.is_late(statement, &answer)? => {
                    if std::mem::replace(&mut was_late, true) {
                        return Err(
                            error::in_doubt(error::refused_as_too_late(), lost.as_ref()).into()
                        );
                    }
                    continue;
                }
                Ok(answer) => return Ok(Answer { lost, ..answer }),
                Err(failure) => failure,
            };
            match failure.remedy {
                Remedy::Repeat { .. } if conflicts < CONFLICTS => conflicts += 1,
                Remedy::Reconnect { from_pool }
                    if (from_pool || new_ones_lost == 0)
                        && Instant::now() < last_start
                        && (statement.is_sent_again || !failure.error.is_outcome_unknown()) =>
                {
                    new_ones_lost += u32::from(!from_pool);
                    if lost.is_none() && failure.error.is_outcome_unknown() {
                        lost = Some(failure.error);
                    }
                }
                Remedy::Repeat { overtaken: true } if statement.yields_to_rivals => {
                    let sent = Instant::now();
                    return Ok(Answer { row: None, more: Vec::new(), lost, sent, deadline: None });
                }
                _ => {
                    let error = error::in_doubt(failure.error, lost.as_ref());
                    return Err(Failure { error, ..failure });
                }
            }
        }
    }

    /// True if the server refused a statement that has a deadline.
    fn is_late(&self, statement: &Statement, answer: &Answer) -> Result<bool, LockError> {
        let (Some(written), Some(row)) = (statement.written, &answer.row) else { return Ok(false) };
        let judged_at = column::<Option<i64>>(row, "judged_at_ms")?;
        let Some(judged_at) = judged_at.map(written_time).transpose()? else { return Ok(false) };
        self.clock.learn(answer.sent, judged_at);
        let is_over = answer.deadline.is_some_and(|deadline| judged_at > deadline);
        Ok(is_over && column::<Option<AnyValue>>(row, written)?.is_none())
    }

    async fn send(
        &self,
        lane: Lane,
        caller: &Caller,
        statement: &Statement,
        parameters: &[Param<'_>],
    ) -> Result<Answer, Failure> {
        let wait_ends = Instant::now() + self.pool_wait;
        let turns = match lane {
            Lane::Holder => None,
            Lane::Extend => Some(&self.extends),
            Lane::Contender => Some(&self.contenders),
        };
        let turn = match turns {
            None => None,
            Some(turns) => timeout_at(wait_ends, Arc::clone(turns).acquire_owned())
                .await
                .map_err(|_| self.exhausted())?
                .ok(),
        };
        let connection = self.connection(wait_ends, turn).await?;
        let answer_ends = Instant::now() + self.statement;
        let mut result = self.run(&connection, caller, statement, parameters, answer_ends).await;
        if let Err(Failure { remedy: Remedy::Prepare, .. }) = result {
            connection.forget(statement);
            result = self.run(&connection, caller, statement, parameters, answer_ends).await;
        }
        match &mut result {
            Ok(_) => connection.give_back(),
            Err(failure) => self.elsewhere.act_on(failure, connection),
        }
        result
    }

    /// Takes a connection of the pool, for the caller that has this turn.
    pub(crate) async fn connection(
        &self,
        wait_ends: Instant,
        turn: Option<OwnedSemaphorePermit>,
    ) -> Result<Connection<'_>, LockError> {
        match timeout_at(wait_ends, self.pool.get()).await {
            Ok(Ok(client)) => Ok(Connection::new(client, turn, &self.busy)),
            Ok(Err(error)) => Err(error::from_pool(&error)),
            Err(_) => {
                let status = self.pool.status();
                Err(if status.size >= status.max_size {
                    self.exhausted()
                } else {
                    error::connect_timed_out()
                })
            }
        }
    }

    /// The reason why no connection became free.
    fn exhausted(&self) -> LockError {
        if 2 * self.busy.waiting() >= self.pool.status().max_size {
            error::pool_unanswered()
        } else {
            error::pool_exhausted()
        }
    }

    async fn run(
        &self,
        connection: &Connection<'_>,
        caller: &Caller,
        statement: &Statement,
        parameters: &[Param<'_>],
        ends: Instant,
    ) -> Result<Answer, Failure> {
        let client = connection.client()?;
        let after = Phase::After { writes: statement.writes };
        let prepared = if self.unprepared {
            None
        } else {
            let prepared = client.prepare_typed_cached(&statement.sql, statement.types);
            let prepared = timeout_at(ends, prepared)
                .await
                .map_err(|_| Failure::unanswered(Phase::Before))?
                .map_err(|error| error::classify_own(&error, Phase::Before, &statement.sql))?;
            Some(prepared)
        };
        let deadline = if statement.written.is_some() {
            Some(self.deadline(client, ends).await?)
        } else {
            None
        };
        caller.check().map_err(Failure::unsent)?;
        if let Some(deadline) = deadline {
            caller.sends(deadline, ends.saturating_duration_since(Instant::now()));
        }
        let last = deadline.map(|deadline| Param::expiry(Some(deadline)));
        let all = parameters.iter().chain(&last);
        let sent = Instant::now();
        let answer = match &prepared {
            None => {
                let all: Vec<(&(dyn ToSql + Sync), Type)> = all
                    .zip(statement.types)
                    .map(|(parameter, kind)| (parameter as _, kind.clone()))
                    .collect();
                timeout_at(ends, client.query_typed(&statement.sql, &all)).await
            }
            Some(prepared) => {
                let all: Vec<&(dyn ToSql + Sync)> = all.map(|parameter| parameter as _).collect();
                timeout_at(ends, client.query(prepared, &all)).await
            }
        };
        let rows = answer
            .map_err(|_| Failure::unanswered(after))?
            .map_err(|error| error::classify_own(&error, after, &statement.sql))?;
        if statement.repeats_id && !rows.iter().all(|row| answers(row, parameters.first())) {
            return Err(Failure::misdirected(after));
        }
        let mut rows = rows.into_iter();
        Ok(Answer { row: rows.next(), more: rows.collect(), lost: None, sent, deadline })
    }

    /// Returns the server's time at `ends`: from then on, it refuses the statement that is sent now. Before the
    /// first answer, the server is asked for its time.
    async fn deadline(&self, client: &Client, ends: Instant) -> Result<Timestamp, Failure> {
        let bound = || ends.saturating_duration_since(Instant::now());
        if let Some(deadline) = self.clock.deadline(bound()) {
            return Ok(deadline);
        }
        let sent = Instant::now();
        let rows = timeout_at(ends, client.query_typed(&self.time, &[]))
            .await
            .map_err(|_| Failure::unanswered(Phase::Before))?
            .map_err(|error| error::classify(&error, Phase::Before))?;
        let row = rows.first().ok_or_else(no_time)?;
        self.clock.learn(sent, written_time(column(row, "answered_ms")?)?);
        self.clock.deadline(bound()).ok_or_else(|| no_time().into())
    }
}

/// True if the row belongs to a statement about this lock id, or about several.
fn answers(row: &Row, lock_id: Option<&Param<'_>>) -> bool {
    let said: Option<&str> = row.try_get("asked").unwrap_or_default();
    match (said, lock_id) {
        (Some(said), Some(Param::Text(asked))) => said == *asked,
        (Some(said), Some(Param::Texts(asked))) => asked.contains(&said),
        _ => false,
    }
}

fn no_time() -> LockError {
    LockError::internal("PostgreSQL did not say what time it is")
}

/// A value for a statement. The driver logs parameters at debug level; this type hides its value.
#[derive(Clone, Copy)]
pub(crate) enum Param<'a> {
    Text(&'a str),
    Millis(i64),
    Number(i64),
    Texts(&'a [&'a str]),
    Numbers(&'a [i64]),
    /// NULL.
    Nothing,
}

impl Param<'_> {
    /// A point in time, or NULL.
    pub(crate) fn expiry(at: Option<Timestamp>) -> Self {
        at.map_or(Self::Nothing, |at| Self::Millis(millis(at.as_millis())))
    }
}

impl From<Ttl> for Param<'_> {
    fn from(ttl: Ttl) -> Self {
        Self::Millis(millis(ttl.as_millis()))
    }
}

/// A time or a TTL for a statement: 2^53 - 1 at most.
pub(crate) fn millis(of: u64) -> i64 {
    i64::try_from(of).unwrap_or(i64::MAX)
}

impl fmt::Debug for Param<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("_")
    }
}

impl ToSql for Param<'_> {
    fn to_sql(
        &self,
        kind: &Type,
        buffer: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Self::Text(text) => text.to_sql(kind, buffer),
            Self::Millis(number) | Self::Number(number) => number.to_sql(kind, buffer),
            Self::Texts(texts) => texts.to_sql(kind, buffer),
            Self::Numbers(numbers) => numbers.to_sql(kind, buffer),
            Self::Nothing => Ok(IsNull::Yes),
        }
    }

    fn accepts(kind: &Type) -> bool {
        matches!(*kind, Type::TEXT | Type::INT8 | Type::TEXT_ARRAY | Type::INT8_ARRAY)
    }

    to_sql_checked!();
}

#[cfg(test)]
mod tests {
    use super::Param;

    #[test]
    fn parameters_do_not_show() {
        assert_eq!(format!("{:?}", [Param::Text("secret"), Param::Millis(1)]), "[_, _]");
    }
}
