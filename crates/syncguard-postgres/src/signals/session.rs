//! One connection on which releases are heard.

use std::collections::HashMap;
use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::BytesMut;
use syncguard_core::LockError;
use syncguard_core::authoring::signals::{Changes, LockSeen, SignalEnd, Subscriptions};
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{AsyncMessage, Client, Error, Notification, Row};

use super::plan::Plan;
use super::route::Messages;
use crate::cancel_request::process_of;
use crate::error::{self, Phase};
use crate::record::column;

/// After so long the server is asked again for a key that a release under way holds.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(16);

/// Connects, and serves subscriptions until the connection is lost or they end.
pub(super) async fn listen(
    plan: Arc<Plan>,
    subscriptions: Subscriptions,
) -> Result<SignalEnd, LockError> {
    let opened = timeout(plan.connect, plan.route.open()).await;
    let (client, mut messages) =
        opened.map_err(|_| error::connect_timed_out())?.map_err(|error| classify(&error))?;
    let session = Session {
        plan: &plan,
        subscriptions,
        numbers: Mutex::default(),
        process: AtomicI32::new(0),
        hello: Notify::new(),
    };
    let end = tokio::select! {
        biased;
        error = session.hear(&mut messages) => Err(error),
        end = session.talk(client) => end,
    };
    if end.is_ok() {
        // It says good-bye.
        let all = async { while next(&mut messages).await.is_some() {} };
        let _ = timeout(plan.statement, all).await;
    }
    end
}

struct Session<'a> {
    plan: &'a Plan,
    subscriptions: Subscriptions,
    /// The numbers that the session holds, by key.
    numbers: Mutex<HashMap<String, i64>>,
    /// The server's process of this session, once it is known.
    process: AtomicI32,
    /// Rings when the session's own notification is heard, which shows that they come through.
    hello: Notify,
}

impl Session<'_> {
    /// Passes on what is heard, for as long as the connection lives.
    async fn hear(&self, messages: &mut Messages) -> LockError {
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

    /// Begins to listen, and tells the server what is watched.
    async fn talk(&self, client: Client) -> Result<SignalEnd, LockError> {
        let rows = client.query_typed(&self.plan.listener, &[]).await;
        let rows = rows.map_err(|error| classify(&error))?;
        let row = rows.first().ok_or_else(no_answer)?;
        let (process, table) = (column::<i32>(row, 0)?, column::<i64>(row, 1)?);
        if process_of(&client.cancel_token()).await != Some(process) {
            // A pooler: what is set in a session may be set in another one.
            return Ok(SignalEnd::Unsupported);
        }
        self.process.store(process, Ordering::Relaxed);
        let room = usize::try_from(column::<i64>(row, 2)?).unwrap_or_default();
        let listening = client.batch_execute(&self.plan.listen(table)).await;
        listening.map_err(|error| classify(&error))?;
        self.hello.notified().await;
        self.serve(&client, table, self.plan.limit(room)).await
    }

    /// Tells the server what is watched, until nobody watches anything.
    async fn serve(
        &self,
        client: &Client,
        table: i64,
        limit: usize,
    ) -> Result<SignalEnd, LockError> {
        let types = [Type::TEXT_ARRAY, Type::INT8_ARRAY];
        let watch = client.prepare_typed(&self.plan.watch, &types).await;
        let watch = watch.map_err(|error| classify(&error))?;
        // Keys that a release under way holds.
        let (mut held_up, mut pause) = (Vec::new(), FIRST_PAUSE);
        loop {
            let next = self.subscriptions.next();
            let changes = if held_up.is_empty() {
                next.await
            } else {
                timeout(pause, next).await.unwrap_or_else(|_| Some(Changes::default()))
            };
            let Some(changes) = changes else { return Ok(SignalEnd::Closed) };
            let is_for_life = changes.is_empty();
            let (keys, unwatched) = self.questions(changes, held_up, limit);
            if keys.is_empty() && unwatched.is_empty() && !is_for_life {
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
            held_up = self.answered(rows.first().ok_or_else(no_answer)?, keys, table)?;
            pause = if held_up.is_empty() { FIRST_PAUSE } else { LONGEST_PAUSE.min(2 * pause) };
        }
    }

    /// The keys to watch, and the numbers to let go of.
    fn questions(
        &self,
        changes: Changes,
        mut keys: Vec<String>,
        limit: usize,
    ) -> (Vec<String>, Vec<i64>) {
        let mut numbers = self.numbers();
        keys.retain(|key| !changes.unsubscribe.contains(key));
        let unwatched = changes.unsubscribe.iter().filter_map(|key| numbers.remove(key)).collect();
        for key in changes.subscribe {
            if numbers.contains_key(&key) {
                self.subscriptions.confirm(&key, LockSeen::MayBeFree);
            } else if keys.contains(&key) {
                // It is asked for again.
            } else if numbers.len() + keys.len() < limit {
                keys.push(key);
            } else {
                self.subscriptions.refuse(&key);
            }
        }
        (keys, unwatched)
    }

    /// Notes what the server says of these keys. Those whose numbers it does not give out are asked for again.
    fn answered(&self, row: &Row, keys: Vec<String>, table: i64) -> Result<Vec<String>, LockError> {
        if column::<i64>(row, 0)? != table {
            // There is another table of this name now, with a channel of its own.
            return Err(error::table_replaced());
        }
        let numbers: Vec<i64> = column::<Option<_>>(row, 2)?.unwrap_or_default();
        let are_watched: Vec<bool> = column::<Option<_>>(row, 3)?.unwrap_or_default();
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

/// The number of the key whose lock was released, as `signal.sql` writes it.
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
