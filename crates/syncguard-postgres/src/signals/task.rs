//! The task of a session: opens the connection, listens, and tells the server what is watched.

use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use syncguard_core::LockError;
use tokio::sync::Notify;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout_at};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{AsyncMessage, Client, Notification, Row, Statement};

use super::plan::Plan;
use super::route::Messages;
use super::session::Session;
use crate::cancel_request::process_of;
use crate::error::{self, Phase};
use crate::record::column;

/// How a session ends.
#[derive(Debug)]
pub(super) enum End {
    /// Nobody watches anything, or the backend is gone.
    Unused,
    /// The connection leads to a pooler: what is set in a session may be set in another one.
    Pooler,
    /// It was not possible, or is not any more.
    Failed(LockError),
}

impl From<LockError> for End {
    fn from(error: LockError) -> Self {
        Self::Failed(error)
    }
}

/// A session is closed when it has been unused for so long, and asked for a sign of life when it has not
/// given one for so long.
const QUIET: Duration = Duration::from_secs(10);

/// After so long the server is asked again for a key that a release under way holds.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(16);

/// A session that has been open for so long is a good one.
const GOOD: Duration = Duration::from_secs(10);

/// From the first connection to the last answer. `is_good` is called once signals have been heard for
/// a while.
pub(super) async fn run(session: &Session, plan: &Plan, is_good: impl Fn() + Send) -> End {
    let ends = Instant::now() + plan.connect;
    session.is_busy_until(ends);
    let (client, mut messages) = match timeout_at(ends, plan.route.open()).await {
        Ok(Ok(connection)) => connection,
        Ok(Err(error)) => return error::classify(&error, Phase::Before).error.into(),
        Err(_) => return error::connect_timed_out().into(),
    };
    let mut talk = Talk { session, plan, client, ends };
    let end = {
        let heard = Heard::default();
        tokio::select! {
            biased;
            end = hear(&mut messages, session, &heard) => end,
            end = talk.run(&heard, is_good) => end,
        }
    };
    if let End::Unused | End::Pooler = end {
        // It says good-bye.
        let ends = talk.step();
        drop(talk);
        let _ = timeout_at(ends, async { while next(&mut messages).await.is_some() {} }).await;
    }
    end
}

/// Whether the session's own notification was heard, which shows that they come through.
#[derive(Default)]
struct Heard {
    /// Of the session, once it is known.
    process: AtomicI32,
    bell: Notify,
}

/// Passes on what is heard, for as long as the connection lives.
async fn hear(messages: &mut Messages, session: &Session, heard: &Heard) -> End {
    loop {
        match next(messages).await {
            Some(Ok(AsyncMessage::Notification(notification))) => {
                if let Some(number) = number_in(&notification) {
                    session.signal(number);
                } else if notification.process_id() == heard.process.load(Ordering::Relaxed) {
                    heard.bell.notify_one();
                }
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => return error::classify(&error, Phase::Before).error.into(),
            None => return error::connection_closed().into(),
        }
    }
}

/// The number of the key whose lock was released, as `signal.sql` writes it.
fn number_in(notification: &Notification) -> Option<i64> {
    let number = u64::from_str_radix(notification.payload(), 16).ok()?;
    Some(number.cast_signed())
}

async fn next(messages: &mut Messages) -> Option<Result<AsyncMessage, tokio_postgres::Error>> {
    poll_fn(|context| messages.poll_message(context)).await
}

/// What is said on the connection.
struct Talk<'a> {
    session: &'a Session,
    plan: &'a Plan,
    client: Client,
    /// When the step that was begun last must be over.
    ends: Instant,
}

impl Talk<'_> {
    /// Begins something that takes no longer than a statement may.
    fn step(&mut self) -> Instant {
        self.ends = Instant::now() + self.plan.statement;
        self.session.is_busy_until(self.ends);
        self.ends
    }

    async fn run(&mut self, heard: &Heard, is_good: impl Fn()) -> End {
        match self.listen_and_serve(heard, is_good).await {
            Ok(end) | Err(end) => end,
        }
    }

    async fn listen_and_serve(&mut self, heard: &Heard, is_good: impl Fn()) -> Result<End, End> {
        let ends = self.step();
        let asked = self.client.query_typed(&self.plan.listener, &[]);
        let rows = within(ends, asked).await?;
        let row = rows.first().ok_or_else(no_answer)?;
        let (process, table) = (column::<i32>(row, 0)?, column::<i64>(row, 1)?);
        if process_of(&self.client.cancel_token()).await != Some(process) {
            return Ok(End::Pooler);
        }
        heard.process.store(process, Ordering::Relaxed);
        let room = usize::try_from(column::<i64>(row, 2)?).unwrap_or_default();
        let limit = self.plan.limit(room);
        let ends = self.step();
        within(ends, self.client.batch_execute(&self.plan.listen(table))).await?;
        // A notification of its own comes through.
        if timeout_at(ends, heard.bell.notified()).await.is_err() {
            return Err(error::statement_timed_out(Phase::Before).into());
        }
        let ends = self.step();
        let watch =
            self.client.prepare_typed(&self.plan.watch, &[Type::TEXT_ARRAY, Type::INT8_ARRAY]);
        let watch = within(ends, watch).await?;
        self.session.is_open(limit);
        self.serve(&watch, table, is_good, limit).await
    }

    /// Tells the server what is watched, until nobody watches anything.
    async fn serve(
        &mut self,
        watch: &Statement,
        table: i64,
        is_good: impl Fn(),
        limit: usize,
    ) -> Result<End, End> {
        let mut good_from = Some(Instant::now() + GOOD);
        let mut pause = FIRST_PAUSE;
        let mut quiet_until = Instant::now() + QUIET;
        loop {
            let is_quiet = quiet_until <= Instant::now();
            if self.session.is_forsaken() || is_quiet && self.session.closes_if_idle() {
                return Ok(End::Unused);
            }
            let Some(batch) = self.session.next_batch() else { return Ok(End::Unused) };
            if batch.is_empty() && !is_quiet {
                self.session.is_busy_until(quiet_until);
                let _ = timeout_at(quiet_until, self.session.has_news()).await;
                continue;
            }
            let ends = self.step();
            let parameters: [&(dyn ToSql + Sync); 2] =
                [&Hidden(&batch.keys), &Hidden(&batch.unwatched)];
            let asked = timeout_at(ends, self.client.query(watch, &parameters)).await;
            if matches!(&asked, Ok(Err(error)) if error.code() == Some(&SqlState::OUT_OF_MEMORY)) {
                self.plan.has_no_room(limit);
            }
            let rows = answered(asked)?;
            let answer = Answer::new(rows.first().ok_or_else(no_answer)?)?;
            if answer.table != table {
                // There is another table of this name now, with a channel of its own.
                return Err(error::table_replaced().into());
            }
            quiet_until = Instant::now() + QUIET;
            if good_from.is_some_and(|from| from <= Instant::now()) {
                good_from = None;
                is_good();
            }
            if self.session.answered(answer.of(batch.keys)) {
                pause = FIRST_PAUSE;
            } else {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

/// What the server says of the keys of a batch.
struct Answer {
    table: i64,
    numbers: Vec<i64>,
    is_watched: Vec<bool>,
}

impl Answer {
    fn new(row: &Row) -> Result<Self, LockError> {
        Ok(Self {
            table: column(row, 0)?,
            numbers: column::<Option<_>>(row, 2)?.unwrap_or_default(),
            is_watched: column::<Option<_>>(row, 3)?.unwrap_or_default(),
        })
    }

    /// In the order of these keys.
    fn of(self, keys: Vec<String>) -> impl Iterator<Item = (String, i64, bool)> {
        let answers = self.numbers.into_iter().zip(self.is_watched);
        keys.into_iter().zip(answers).map(|(key, (number, is_watched))| (key, number, is_watched))
    }
}

async fn within<T>(
    ends: Instant,
    statement: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, LockError> {
    answered(timeout_at(ends, statement).await)
}

fn answered<T>(asked: Result<Result<T, tokio_postgres::Error>, Elapsed>) -> Result<T, LockError> {
    asked
        .map_err(|_| error::statement_timed_out(Phase::Before))?
        .map_err(|error| error::classify(&error, Phase::Before).error)
}

fn no_answer() -> LockError {
    LockError::internal("PostgreSQL gave no answer on the connection for signals")
}

/// Parameters that the driver does not show in its log.
struct Hidden<'a, T>(&'a [T]);

impl<T> fmt::Debug for Hidden<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("_")
    }
}

impl<T: ToSql> ToSql for Hidden<'_, T> {
    fn to_sql(
        &self,
        kind: &Type,
        buffer: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        self.0.to_sql(kind, buffer)
    }

    fn accepts(kind: &Type) -> bool {
        <&[T] as ToSql>::accepts(kind)
    }

    to_sql_checked!();
}
