//! The connections between drivers and the server, on the simulated network: bytes arrive in order. They may stall,
//! or never arrive any more, or the connection is cut.

use std::collections::{BTreeMap, HashSet};
use std::io::ErrorKind;
use std::sync::Arc;

use syncguard_history::Fault;

use super::session::{Ended, Sessions, Wants};
use super::statements::Statement;
use super::stream::{Inbox, Stream, Way};
use super::tables::{Done, Tables};
use crate::flaw::Flaw;
use crate::link::Link;
use crate::network::{LATEST, MILLI, Network, SECOND, What};

/// How long the kernel waits for the other side before it gives the connection up, as the pool of `connect` sets it.
const TCP_USER_TIMEOUT: u64 = 10 * SECOND;

/// The channel of the lock table.
pub(super) const CHANNEL: &str = "syncguard_1";

#[derive(Default)]
pub(crate) struct Streams {
    sessions: Sessions,
    open: BTreeMap<u64, Open>,
    /// The connections with a statement under way.
    busy: HashSet<u64>,
    /// The number of connections that were ever opened.
    opened: u64,
}

/// A connection.
struct Open {
    member: usize,
    inbox: Inbox,
    /// Counts events, to be compared with those at which connections fell silent.
    number: u64,
    /// When the last bytes arrive, in each direction.
    to_server: u64,
    to_client: u64,
    is_closing: bool,
}

impl Streams {
    pub(crate) fn new(are_pooled: bool) -> Self {
        let mut streams = Self::default();
        streams.sessions.are_pooled = are_pooled;
        streams
    }

    /// The connections of a member are reset. What is on its way to the server still arrives.
    pub(crate) fn cut(&mut self, member: usize) {
        for open in self.open.values().filter(|open| open.member == member) {
            open.inbox.ends(ErrorKind::ConnectionReset);
        }
    }

    /// The kernel gives a connection up.
    pub(crate) fn gives_up(&self, connection: u64) {
        if let Some(open) = self.open.get(&connection) {
            open.inbox.ends(ErrorKind::TimedOut);
        }
    }

    pub(crate) fn closes(&mut self, connection: u64, tables: &mut Tables) {
        self.open.remove(&connection);
        self.sessions.closes(connection);
        tables.closes(connection);
    }

    /// The server restarts, and all connections are lost.
    pub(crate) fn restarts(&mut self) {
        for open in std::mem::take(&mut self.open).into_values() {
            open.inbox.ends(ErrorKind::ConnectionReset);
        }
        self.sessions.restarts();
        self.busy.clear();
    }

    /// Bytes arrive at the driver.
    pub(crate) fn deliver(&self, connection: u64, bytes: &[u8]) {
        if let Some(open) = self.open.get(&connection) {
            open.inbox.push(bytes);
        }
    }
}

/// Opens a connection of a process.
pub(super) fn open(link: &Arc<Link>) -> Stream {
    let (inbox, now) = (Inbox::default(), link.now());
    let mut network = link.network();
    let opens = network.opens(link.member, now);
    if opens.is_none() {
        inbox.ends(ErrorKind::ConnectionRefused);
    }
    network.count += 1;
    let number = network.count;
    network.streams.opened += 1;
    let connection = network.streams.opened;
    let to_server = now + opens.unwrap_or(0);
    let open = Open {
        member: link.member,
        inbox: inbox.clone(),
        number,
        to_server,
        to_client: now,
        is_closing: false,
    };
    network.streams.open.insert(connection, open);
    drop(network);
    Stream { inbox, way: Arc::<Link>::clone(link), connection, written: Vec::new() }
}

impl Way for Link {
    fn write(&self, connection: u64, bytes: Vec<u8>) {
        self.network().writes(self.now(), connection, bytes);
    }

    fn closes(&self, connection: u64) {
        let now = self.now();
        self.network().is_closed(connection, now);
    }
}

impl Network {
    /// The kernel closes the connections of a killed process, in the order in which the process opened them. Its runtime
    /// drops them in an order that depends on the tasks of earlier runs.
    pub(crate) fn closes_all(&mut self, member: usize) {
        let open = self.streams.open.iter().filter(|(_, open)| open.member == member);
        let connections: Vec<_> = open.map(|(connection, _)| *connection).collect();
        for connection in connections {
            self.is_closed(connection, self.now);
        }
    }

    /// The driver's end is closed.
    fn is_closed(&mut self, connection: u64, now: u64) {
        let Some(open) = self.streams.open.get_mut(&connection) else { return };
        if std::mem::replace(&mut open.is_closing, true) {
            return;
        }
        let (member, last) = (open.member, open.to_server);
        let at = last.max(now.max(self.now) + self.latency(member));
        self.at(at, What::Closes { connection });
    }

    /// Bytes leave for the server.
    fn writes(&mut self, at: u64, connection: u64, bytes: Vec<u8>) {
        let Some(open) = self.streams.open.get(&connection) else { return };
        let (member, number, last) = (open.member, open.number, open.to_server);
        let at = at.max(self.now);
        let mut arrives = at + self.latency(member);
        let (fate, odds) = (self.random.below(10_000), self.odds);
        if last == u64::MAX || self.is_silent(member, number) {
            arrives = u64::MAX;
        } else if fate < odds.lost {
            // From now on, nothing arrives any more.
            self.fault(Fault::Lost);
            arrives = u64::MAX;
        } else if fate < odds.lost + odds.late {
            self.fault(Fault::Late);
            let most = if self.random.percent(50) { SECOND / 2 } else { LATEST };
            arrives += 20 * MILLI + self.random.below(most);
            if self.flaw == Some(Flaw::ForgottenSending) {
                // That flaw shows only if the connection is lost meanwhile.
                self.at(at + 5 * MILLI, What::GivesUp { connection });
            }
        }
        let arrives = arrives.max(last);
        if let Some(open) = self.streams.open.get_mut(&connection) {
            open.to_server = arrives;
        }
        let write = What::Bytes { connection, bytes, to_server: true };
        if std::mem::take(&mut self.holds) {
            self.held = Some(write);
            // What follows on this connection never arrives.
            if let Some(open) = self.streams.open.get_mut(&connection) {
                open.to_server = u64::MAX;
            }
        } else if arrives < u64::MAX {
            self.at(arrives, write);
        } else {
            self.at(at + TCP_USER_TIMEOUT, What::GivesUp { connection });
        }
    }

    /// Bytes leave for the driver.
    fn sends(&mut self, connection: u64, bytes: Vec<u8>) {
        let Some(open) = self.streams.open.get(&connection) else { return };
        let (member, number, last) = (open.member, open.number, open.to_client);
        let mut arrives = (self.now + self.latency(member)).max(last);
        let is_lost = self.random.below(10_000) < self.odds.lost;
        if is_lost {
            self.fault(Fault::Lost);
        }
        if is_lost || self.is_silent(member, number) {
            // From now on, nothing arrives any more; the keep-alives of the kernel find that.
            arrives = u64::MAX;
            self.at(self.now + TCP_USER_TIMEOUT, What::GivesUp { connection });
        }
        if let Some(open) = self.streams.open.get_mut(&connection) {
            open.to_client = arrives;
            if arrives == u64::MAX {
                open.to_server = u64::MAX;
            }
        }
        if arrives < u64::MAX {
            self.at(arrives, What::Bytes { connection, bytes, to_server: false });
        }
    }

    /// Bytes arrive at the server.
    pub(crate) fn receives(&mut self, connection: u64, bytes: &[u8]) {
        if self.streams.open.contains_key(&connection) {
            let wants = self.streams.sessions.receives(connection, bytes);
            self.wants(connection, wants);
        }
    }

    fn wants(&mut self, connection: u64, wants: Vec<Wants>) {
        for want in wants {
            match want {
                Wants::Sends(bytes) => self.sends(connection, bytes),
                Wants::Closes => self.closes(connection),
                Wants::Cancels(session) => {
                    let done = self.tables().cancels(session);
                    self.is_done(done);
                }
                Wants::Listens(hello) => {
                    self.tables().listens(connection);
                    let bytes = Sessions::notification(connection, CHANNEL, hello);
                    self.sends(connection, bytes);
                }
                Wants::Begins(begun) => {
                    self.streams.busy.insert(connection);
                    let statement = Statement::of(&begun);
                    let is_twice = self.flaw == Some(Flaw::ResentExtends)
                        && matches!(statement, Statement::Extend { .. });
                    if is_twice && self.random.percent(10) {
                        // For nobody: the other sending has answered.
                        let again = self.tables().begins(0, statement.clone());
                        let later = self.now + self.random.below(SECOND / 4);
                        self.at(later, What::Goes { statement: again });
                    }
                    let statement = self.tables().begins(connection, statement);
                    self.goes(statement);
                }
            }
        }
    }

    /// Takes the next step of a statement.
    pub(crate) fn goes(&mut self, statement: usize) {
        let now = Self::unix(self.now);
        let (server, random) = (&mut self.server, &mut self.random);
        let done = server.tables().goes(statement, now, random);
        if let Some(pause) = done.pause {
            self.at(self.now + pause, What::Goes { statement });
        }
        self.is_done(done);
    }

    fn is_done(&mut self, done: Done) {
        for (connection, ended) in done.ended {
            self.ends(connection, ended);
        }
        for statement in done.woken {
            self.at(self.now, What::Goes { statement });
        }
        for (listener, from, text) in done.notifications {
            let bytes = Sessions::notification(from, CHANNEL, &text);
            self.sends(listener, bytes);
        }
    }

    /// A statement has ended.
    fn ends(&mut self, connection: u64, ended: Ended) {
        if self.streams.busy.remove(&connection) {
            let wants = self.streams.sessions.ends(connection, ended);
            self.wants(connection, wants);
        }
    }

    /// A connection is closed.
    pub(crate) fn closes(&mut self, connection: u64) {
        let (server, streams) = (&mut self.server, &mut self.streams);
        streams.closes(connection, server.tables());
    }

    fn tables(&mut self) -> &mut Tables {
        self.server.tables()
    }
}
