//! A session: one connection on which the server reports changes of records.

use std::collections::HashMap;
use std::time::Duration;

use fred::types::client::Invalidation;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use syncguard_core::Jitter;
use syncguard_core::authoring::Recent;
use syncguard_core::authoring::signals::{LockSeen, SignalEnd, Subscriptions};
use syncguard_core::{Fence, LockError, LockInfo, Timestamp};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, sleep};

use crate::client::Connections;
use crate::connection_name::{self, ConnectionName};
use crate::driver::Target;
use crate::listening::lost;
use crate::service::Listening;
use crate::{error, reply, scripts};

/// Turns tracking on, names the connection, and serves subscriptions until they end or the connection is lost.
pub(super) async fn serve(
    listening: Listening,
    name: Option<ConnectionName>,
    command: Duration,
    subscriptions: Subscriptions,
) -> Result<SignalEnd, LockError> {
    let Listening { service, changes, ended } = listening;
    let connections = Connections::new(vec![service], None, 1, command);
    let tracking = connections.command(Target::default(), "CLIENT", &["TRACKING", "ON"]);
    let naming = async {
        if let Some(name) = &name {
            let words = name.words();
            let named = connections.command(Target::default(), "CLIENT", &words).await;
            connection_name::said(named);
        }
    };
    tokio::join!(biased; tracking, naming).0?;
    let session = Session::new(&connections, command, subscriptions);
    tokio::select! {
        biased;
        error = ended => Err(error),
        end = session.serve(changes) => end,
    }
}

/// The state of a connection: its subscriptions, watched records and requests in flight.
struct Session<'a> {
    connections: &'a Connections,
    command: Duration,
    subscriptions: Subscriptions,
    records: HashMap<Box<str>, Record>,
    /// Records that the server does not track any more, because it has reported a change of them; and those that rest.
    changed: Recent<Box<str>, Record>,
    /// Requests that the server has not answered yet.
    in_flight: FuturesUnordered<BoxFuture<'a, Result<Answer, LockError>>>,
}

/// A record that the server tracks: it was read since its last change, or is being read.
#[derive(Default)]
struct Record {
    state: ReadState,
    /// How many reads in a row were outdated before their answer came.
    outdated_reads: u32,
    /// The lock that was read last: each acquisition has a new fence, and each extend changes the expiry.
    seen: Option<(Fence, Timestamp)>,
    /// How many changes the server has reported since this lock was read first. They were false if it is read again.
    changes: u32,
    rests_until: Option<Instant>,
}

/// The progress of reading a record.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum ReadState {
    /// No read is in flight.
    #[default]
    Idle,
    Reading,
    /// A read is in flight, and the record may have changed since it was sent.
    Outdated,
    /// A read is in flight, and the record has no watch any more.
    Abandoned,
}

enum Answer {
    /// The server is alive.
    Pong,
    /// The live lock of a record, if there is one, and whether its holder polls; an error if the record is corrupt, or if
    /// its slot has moved to another node. The waiter's next request then finds the node, and its next watch goes there.
    Record(Box<str>, Result<Option<(LockInfo, bool)>, LockError>),
}

impl<'a> Session<'a> {
    /// The longest pause before a read of a record that changes during each read.
    const MAX_PAUSE: Duration = Duration::from_millis(1);
    /// After so many false changes in a row, a record is not watched for [`REST`](Self::REST): the server's table is full
    /// then (`tracking-table-max-keys`), and for each record that is read again, the server forgets another one and
    /// reports that one as changed. A single false change means nothing: a report from before the record was read may
    /// arrive after the answer.
    const TOO_MANY: u32 = 2;
    const REST: Duration = Duration::from_secs(5);
    /// The most changed records that are remembered.
    const REMEMBERED: usize = 16_384;

    fn new(connections: &'a Connections, command: Duration, subscriptions: Subscriptions) -> Self {
        Self {
            connections,
            command,
            subscriptions,
            records: HashMap::new(),
            changed: Recent::new(Self::REMEMBERED),
            in_flight: FuturesUnordered::new(),
        }
    }

    async fn serve(mut self, mut changes: Receiver<Invalidation>) -> Result<SignalEnd, LockError> {
        loop {
            tokio::select! {
                // A change is handled before an answer: the answer may be older, and must not confirm a watch then.
                biased;
                change = changes.recv() => match change {
                    Ok(change) => {
                        for name in change.keys.iter().filter_map(|key| key.as_str()) {
                            self.on_change(name);
                        }
                    }
                    // Changes were dropped, so any record may have changed.
                    Err(RecvError::Lagged(_)) => {
                        let names: Vec<_> = self.records.keys().cloned().collect();
                        for name in &names {
                            self.on_change(name);
                        }
                    }
                    Err(RecvError::Closed) => return Err(lost()),
                },
                Some(answer) = self.in_flight.next() => {
                    // `?` also ends the session if the server denies the read.
                    if let Answer::Record(name, lock) = answer? {
                        self.on_answer(&name, lock);
                    }
                }
                next = self.subscriptions.next() => {
                    let Some(next) = next else { return Ok(SignalEnd::Closed) };
                    if next.is_empty() {
                        self.ping();
                    }
                    for name in &next.unsubscribe {
                        self.leave(name);
                    }
                    for name in next.subscribe {
                        self.subscribe(name.into());
                    }
                }
            }
        }
    }

    /// Reads the record, which makes the server track it. Refuses a record that rests because of false changes.
    fn subscribe(&mut self, name: Box<str>) {
        let now = Instant::now();
        let rests = |record: &Record| record.rests_until.is_some_and(|until| now < until);
        if self.changed.look(&name, rests) == Some(true) {
            return self.subscriptions.refuse(&name);
        }
        let known = || self.changed.take(&name).unwrap_or_default();
        let record = self.records.entry(name.clone()).or_insert_with(known);
        match record.state {
            ReadState::Idle => self.start_read(name, Duration::ZERO),
            // The read in flight serves this watch too: the server reports any change after it.
            ReadState::Reading | ReadState::Outdated => {}
            // A change may have been reported while the record had no watch.
            ReadState::Abandoned => record.state = ReadState::Outdated,
        }
    }

    /// Forgets the record. The server still reports its next change, which is then ignored.
    fn leave(&mut self, name: &str) {
        let Some(record) = self.records.get_mut(name) else { return };
        if record.state == ReadState::Idle {
            self.records.remove(name);
        } else {
            record.state = ReadState::Abandoned;
        }
    }

    /// The server reports a change of a record, once after each read.
    fn on_change(&mut self, name: &str) {
        self.subscriptions.end(name);
        let Some(record) = self.records.get_mut(name) else { return };
        match record.state {
            ReadState::Idle => {
                record.changes += 1;
                self.set_aside(name);
            }
            ReadState::Reading => record.state = ReadState::Outdated,
            ReadState::Outdated | ReadState::Abandoned => {}
        }
    }

    fn start_read(&mut self, name: Box<str>, pause: Duration) {
        if let Some(record) = self.records.get_mut(&name) {
            record.state = ReadState::Reading;
        }
        let connections = self.connections;
        self.in_flight.push(Box::pin(async move {
            if !pause.is_zero() {
                sleep(pause).await;
            }
            let answer = connections.read(Target::default(), || Ok(scripts::lookup_by_key(&name)));
            let answer = match answer.await {
                Err(error) if error::is_elsewhere(&error) => {
                    return Ok(Answer::Record(name, Err(error)));
                }
                answer => answer?,
            };
            let polls = reply::lacks_holder(&answer);
            let lock = reply::found(answer, None, &name).map(|lock| lock.map(|lock| (lock, polls)));
            Ok(Answer::Record(name, lock))
        }));
    }

    fn ping(&mut self) {
        let (connections, until) = (self.connections, Instant::now() + self.command);
        self.in_flight.push(Box::pin(async move {
            connections.ask(Target::default(), "PING", until).await.map(|_| Answer::Pong)
        }));
    }

    /// The server has answered a read.
    fn on_answer(&mut self, name: &str, lock: Result<Option<(LockInfo, bool)>, LockError>) {
        let Some(record) = self.records.get_mut(name) else { return };
        let state = std::mem::take(&mut record.state);
        if state == ReadState::Abandoned {
            self.records.remove(name);
            return;
        }
        let Ok(lock) = lock else { return self.refuse(name) };
        let seen = lock.as_ref().map(|(lock, _)| (lock.fence, lock.expires_at));
        if seen.is_none() || seen != record.seen {
            (record.seen, record.changes) = (seen, 0);
        } else if record.changes >= Self::TOO_MANY {
            (record.changes, record.rests_until) = (0, Some(Instant::now() + Self::REST));
            return self.refuse(name);
        }
        if state == ReadState::Outdated {
            record.changes += 1;
            record.outdated_reads += 1;
            // Rivals are busy with the record.
            let pause = if record.outdated_reads > 1 {
                Jitter::Full.of(Self::MAX_PAUSE)
            } else {
                Duration::ZERO
            };
            return self.start_read(name.into(), pause);
        }
        record.outdated_reads = 0;
        self.subscriptions.confirm(name, LockSeen::of(lock.map(|(_, polls)| polls)));
    }

    fn refuse(&mut self, name: &str) {
        self.set_aside(name);
        self.subscriptions.refuse(name);
    }

    fn set_aside(&mut self, name: &str) {
        if let Some((name, record)) = self.records.remove_entry(name) {
            self.changed.put(name, record);
        }
    }
}

#[cfg(test)]
mod tests {
    use fred::clients::Client;
    use syncguard_core::authoring::OutageLog;
    use syncguard_core::authoring::signals::{SignalHub, SignalLimits};
    use syncguard_core::{Key, LockId};

    use super::*;
    use crate::fred_client::FredClient;

    /// One waiter leaves, the lock is released, and another waiter comes, all before the answer to the first read.
    #[tokio::test(start_paused = true)]
    async fn an_answer_from_before_a_change_confirms_no_watch() {
        const LIMIT: Duration = Duration::from_secs(1);
        let limits = SignalLimits { open: LIMIT, step: LIMIT, confirm: LIMIT };
        let listen = |subscriptions| async move {
            let client = FredClient::of_program(&Client::default(), LIMIT);
            let connections = Connections::new(vec![Box::new(client)], None, 1, LIMIT);
            let mut session = Session::new(&connections, LIMIT, subscriptions);
            session.subscriptions.next().await;
            session.subscribe("k".into());
            session.leave("k");
            session.on_change("k");
            session.subscribe("k".into());
            let (time, fence) = (Timestamp::from_millis(1)?, Fence::new(1)?);
            let old = LockInfo::new(Key::new("k")?, LockId::generate()?, time, time, fence);
            session.on_answer("k", Ok(Some((old, false))));
            session.on_answer("k", Ok(None));
            std::future::pending().await
        };
        let hub = SignalHub::new("redis", limits, OutageLog::default(), listen);
        let watch = hub.watch("k").await.expect("a watch");
        assert!(!watch.is_locked);
    }
}
