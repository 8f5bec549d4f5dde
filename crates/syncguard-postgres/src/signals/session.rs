//! A connection that listens for releases.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::BytesMut;
use syncguard_core::authoring::RetryPauses;
use syncguard_core::authoring::signals::{Changes, LockSeen, SignalEnd, Subscriptions};
use syncguard_core::{Jitter, LockError};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{AsyncMessage, Client, Error, Notification, Row, Statement};

use super::plan::Plan;
use super::pooler::session_number;
use super::route::Messages;
use crate::error::{self, Phase};
use crate::record::column;

/// The pauses before the server is asked again for a key that a release in progress holds.
const PAUSES: RetryPauses = RetryPauses {
    first: Duration::from_millis(1),
    longest: Duration::from_millis(16),
    jitter: Jitter::None,
};

/// The pause between two polls: waiters that poll one by one hear of a release later. A poll of 900 keys takes a server 1 ms.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Connects, and serves subscriptions until the connection is lost or they end.
pub(super) async fn listen(
    plan: Arc<Plan>,
    subscriptions: Subscriptions,
) -> Result<SignalEnd, LockError> {
    let opened = timeout(plan.connect, plan.route.open()).await;
    let (client, mut messages) = opened.map_err(|_| error::connect_timed_out())??;
    let session = Session {
        plan: &plan,
        subscriptions,
        numbers: Mutex::default(),
        process: AtomicI32::new(0),
        hello: Notify::new(),
    };
    let end = tokio::select! {
        biased;
        error = session.receive(&mut messages) => Err(error),
        end = session.start(client) => end,
    };
    if end.is_ok() {
        // The dropped client sends its good-bye.
        // A connection that is lost meanwhile says so again and again.
        let all = async { while let Some(Ok(_)) = next(&mut messages).await {} };
        let _ = timeout(plan.statement, all).await;
    }
    end
}

struct Session<'a> {
    plan: &'a Plan,
    subscriptions: Subscriptions,
    /// The numbers of the keys that the session watches, by key.
    numbers: Mutex<HashMap<String, i64>>,
    /// The server's process id of this session, or 0 until it is known.
    process: AtomicI32,
    /// Notified when the session's own notification arrives, which proves that notifications arrive.
    hello: Notify,
}

impl Session<'_> {
    /// Passes notifications on until the connection ends.
    async fn receive(&self, messages: &mut Messages) -> LockError {
        loop {
            match next(messages).await {
                Some(Ok(AsyncMessage::Notification(notification))) => {
                    if let Some(number) = number_in(&notification) {
                        for (key, _) in self.numbers().iter().filter(|(_, of)| **of == number) {
                            self.subscriptions.signal(key);
                        }
                    } else if notification.process_id() == self.process.load(Ordering::Relaxed) {
                        self.hello.notify_one();
                    }
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return classify(&error),
                None => return error::connection_closed(),
            }
        }
    }

    /// Begins to listen, and serves subscriptions.
    async fn start(&self, client: Client) -> Result<SignalEnd, LockError> {
        let rows = client.query_typed(&self.plan.listener, &[]).await;
        let rows = rows.map_err(|error| classify(&error))?;
        let row = rows.first().ok_or_else(no_answer)?;
        let (process, table) = (column::<i32>(row, "process")?, column::<i64>(row, "table_oid")?);
        if session_number(&client).await != Some(process) {
            // A pooler: it may run the next statement in another session.
            return Ok(SignalEnd::Unsupported);
        }
        self.process.store(process, Ordering::Relaxed);
        let room = usize::try_from(column::<i64>(row, "room")?).unwrap_or_default();
        let sees = column::<bool>(row, "sees")?;
        let listening = client.batch_execute(&self.plan.listen(table)).await;
        listening.map_err(|error| classify(&error))?;
        self.hello.notified().await;
        self.serve(&client, table, self.plan.limit(room), sees).await
    }

    /// Tells the server which keys are watched, until the subscriptions end. For keys beyond the limit, one statement polls.
    async fn serve(
        &self,
        client: &Client,
        table: i64,
        limit: usize,
        sees: bool,
    ) -> Result<SignalEnd, LockError> {
        let types = [Type::TEXT_ARRAY, Type::INT8_ARRAY];
        let watch = client.prepare_typed(&self.plan.watch, &types);
        let poll = client.prepare_typed(&self.plan.poll, &types[..1]);
        let (watch, poll) = tokio::try_join!(watch, poll).map_err(|error| classify(&error))?;
        // Keys that a release in progress holds.
        let (mut held_up, mut looks) = (Vec::new(), 1);
        let (mut polled, mut poll_at) = (sees.then(BTreeSet::new), Instant::now());
        loop {
            let wake_at = match &polled {
                _ if !held_up.is_empty() => Some(Instant::now() + PAUSES.pause(looks)),
                Some(keys) if !keys.is_empty() => Some(poll_at),
                _ => None,
            };
            let next = self.subscriptions.next();
            let changes = match wake_at {
                None => next.await,
                Some(at) => timeout_at(at, next).await.unwrap_or_else(|_| Some(Changes::default())),
            };
            let Some(changes) = changes else { return Ok(SignalEnd::Closed) };
            let mut is_ping = changes.is_empty();
            let (keys, unwatched) = self.apply(changes, held_up, limit, &mut polled);
            if let Some(keys) = polled.as_ref().filter(|keys| !keys.is_empty())
                && poll_at <= Instant::now()
            {
                self.poll(client, &poll, keys).await?;
                poll_at = Instant::now() + POLL_INTERVAL;
                is_ping = false;
            }
            if keys.is_empty() && unwatched.is_empty() && !is_ping {
                held_up = keys;
                continue;
            }
            let parameters: [&(dyn ToSql + Sync); 2] = [&Hidden(&keys), &Hidden(&unwatched)];
            let rows = client.query(&watch, &parameters).await.map_err(|error| {
                if error.code() == Some(&SqlState::OUT_OF_MEMORY) {
                    self.plan.has_no_room(limit);
                }
                classify(&error)
            })?;
            held_up = self.confirm(rows.first().ok_or_else(no_answer)?, keys, table)?;
            looks = if held_up.is_empty() { 1 } else { looks + 1 };
        }
    }

    /// Signals the waiters of those keys that have no live lock.
    async fn poll(
        &self,
        client: &Client,
        poll: &Statement,
        keys: &BTreeSet<String>,
    ) -> Result<(), LockError> {
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let rows = client.query(poll, &[&Hidden(&keys)]).await;
        for row in rows.map_err(|error| classify(&error))? {
            self.subscriptions.signal(column(&row, "free")?);
        }
        Ok(())
    }

    /// Returns the keys to watch, and the numbers to unwatch. `polled` has the keys beyond the limit.
    fn apply(
        &self,
        changes: Changes,
        mut keys: Vec<String>,
        limit: usize,
        polled: &mut Option<BTreeSet<String>>,
    ) -> (Vec<String>, Vec<i64>) {
        let mut numbers = self.numbers();
        keys.retain(|key| !changes.unsubscribe.contains(key));
        if let Some(polled) = polled {
            changes.unsubscribe.iter().for_each(|key| _ = polled.remove(key));
        }
        let unwatched = changes.unsubscribe.iter().filter_map(|key| numbers.remove(key)).collect();
        for key in changes.subscribe {
            if numbers.contains_key(&key) {
                self.subscriptions.confirm(&key, LockSeen::MayBeFree);
            } else if keys.contains(&key) {
                // The next statement asks for this key again.
            } else if numbers.len() + keys.len() < limit {
                keys.push(key);
            } else if let Some(polled) = polled {
                // The waiter asks now, and the polls tell it of a later release.
                self.subscriptions.confirm(&key, LockSeen::MayBeFree);
                polled.insert(key);
            } else {
                self.subscriptions.refuse(&key);
            }
        }
        (keys, unwatched)
    }

    /// Confirms the keys that the server watches, and returns the others, which a release in progress holds.
    fn confirm(&self, row: &Row, keys: Vec<String>, table: i64) -> Result<Vec<String>, LockError> {
        if column::<i64>(row, "table_oid")? != table {
            // Another table has this name now, with a channel of its own.
            return Err(error::table_replaced());
        }
        let numbers: Vec<i64> = column::<Option<_>>(row, "numbers")?.unwrap_or_default();
        let are_watched: Vec<bool> = column::<Option<_>>(row, "are_watched")?.unwrap_or_default();
        let mut held_up = Vec::new();
        for (key, (number, is_watched)) in
            keys.into_iter().zip(numbers.into_iter().zip(are_watched))
        {
            if is_watched {
                self.subscriptions.confirm(&key, LockSeen::MayBeFree);
                self.numbers().insert(key, number);
            } else {
                held_up.push(key);
            }
        }
        Ok(held_up)
    }

    fn numbers(&self) -> MutexGuard<'_, HashMap<String, i64>> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the number of the released key, as `signal.sql` writes it.
fn number_in(notification: &Notification) -> Option<i64> {
    let number = u64::from_str_radix(notification.payload(), 16).ok()?;
    Some(number.cast_signed())
}

async fn next(messages: &mut Messages) -> Option<Result<AsyncMessage, Error>> {
    poll_fn(|context| messages.poll_message(context)).await
}

fn classify(error: &Error) -> LockError {
    error::classify(error, Phase::Before).error
}

fn no_answer() -> LockError {
    LockError::internal("PostgreSQL gave no answer on the connection for signals")
}

/// Parameters whose values the driver's log does not show.
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
