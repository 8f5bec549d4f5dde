//! The network and the server: all events between the members, in the order of time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use syncguard_history::{Entry, Fault, Line, Moment, Random, Recorder};
use syncguard_redis::fred::types::client::Invalidation;
use syncguard_redis::fred::types::config::Server as Node;
use tokio::sync::{broadcast, oneshot};

use crate::flaw::Flaw;
use crate::listening::{Asked, Listening, Told};
use crate::postgres::Streams;
use crate::protocol::{Reply, Request};
use crate::redis;
use crate::registers::Registers;
use crate::server::{Refusal, Server};

/// The wall clock at the start of the simulation, in milliseconds.
pub(crate) const EPOCH: u64 = 1_800_000_000_000;

/// Microseconds.
pub(crate) const MILLI: u64 = 1000;
pub(crate) const SECOND: u64 = 1_000_000;

/// The largest delay of a late request.
pub(crate) const LATEST: u64 = 8 * SECOND;

/// How many of ten thousand messages have each fate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Odds {
    /// Requests and replies that never arrive.
    pub(crate) lost: u64,
    /// Requests that arrive about when their caller's wait ends, or later.
    pub(crate) late: u64,
    /// Requests that arrive twice.
    pub(crate) doubled: u64,
}

impl Odds {
    /// Nothing goes wrong.
    pub(crate) const NONE: Self = Self { lost: 0, late: 0, doubled: 0 };
}

/// A network. Clones share it.
#[derive(Clone)]
pub(crate) struct Net(Arc<Mutex<Network>>);

pub(crate) struct Network {
    /// Microseconds since the beginning.
    pub(crate) now: u64,
    pub(crate) random: Random,
    pub(crate) odds: Odds,
    events: BinaryHeap<Reverse<Event>>,
    pub(crate) count: u64,
    pub(crate) server: Server,
    registers: Registers,
    /// The callers that wait for an answer.
    calls: HashMap<u64, Waiting>,
    members: Vec<Connection>,
    /// The end of the server's pause.
    frozen: u64,
    /// The end of the server's outage.
    away: u64,
    /// Connections of PostgreSQL.
    pub(crate) streams: Streams,
    /// Connections that hear of changes of records in Redis, with their members.
    listeners: BTreeMap<u64, (usize, broadcast::Sender<Invalidation>)>,
    /// Streams of Firestore and etcd.
    pub(crate) listening: Listening,
    /// Set if the next write is held back; then the write.
    pub(crate) holds: bool,
    pub(crate) held: Option<What>,
    recorder: Recorder,
    pub(crate) flaw: Option<Flaw>,
}

/// A member's end of the network.
#[derive(Clone, Copy, Default)]
struct Connection {
    /// The number of the connection for requests.
    number: u64,
    /// Connections up to this number are silent: nothing arrives, and nobody is told.
    silent: u64,
    /// The end of a time in which the first address gives no answer to a new connection.
    unreachable: u64,
    /// The end of a time of slow messages.
    slow: u64,
}

struct Waiting {
    member: usize,
    answer: oneshot::Sender<Outcome>,
    is_doubled: bool,
}

/// The result of a request for its sender.
pub(crate) enum Outcome {
    Answered(Reply, Doubled),
    /// The connection was lost.
    Cut,
    /// The server is away, and nothing was sent.
    Refused,
}

/// True if a request may have been carried out more than once.
pub(crate) type Doubled = bool;

struct Event {
    at: u64,
    number: u64,
    what: What,
}

pub(crate) enum What {
    Arrives {
        call: u64,
        member: usize,
        request: Request,
    },
    Goes {
        statement: usize,
    },
    Answers {
        call: u64,
        reply: Reply,
    },
    Invalidates {
        connection: u64,
        name: Vec<u8>,
    },
    /// Bytes of a stream.
    Bytes {
        connection: u64,
        bytes: Vec<u8>,
        to_server: bool,
    },
    Closes {
        connection: u64,
    },
    /// The kernel of a member gives a silent connection up.
    GivesUp {
        connection: u64,
    },
    /// A request and an answer on a stream of Firestore or etcd.
    Listens {
        stream: u64,
        request: Asked,
    },
    Hears {
        stream: u64,
        answer: Told,
    },
    /// A member finds that its connection is silent, and replaces it.
    Replaces {
        member: usize,
    },
    /// The server takes writes again.
    Takes,
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}
impl Eq for Event {}
impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Event {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// A waiting call, until it is dropped.
pub(crate) struct PendingCall {
    net: Net,
    pub(crate) call: u64,
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        self.net.state().calls.remove(&self.call);
    }
}

impl Net {
    pub(crate) fn new(
        seed: u64,
        odds: Odds,
        members: usize,
        server: Server,
        recorder: Recorder,
        flaw: Option<Flaw>,
    ) -> Self {
        let streams = Streams::new(server.is_pooled());
        Self(Arc::new(Mutex::new(Network {
            now: 0,
            random: Random::new(seed),
            odds,
            events: BinaryHeap::new(),
            count: 1,
            server,
            registers: Registers::new(flaw != Some(Flaw::UnfencedRegister)),
            calls: HashMap::new(),
            members: vec![Connection { number: 1, ..Connection::default() }; members],
            frozen: 0,
            away: 0,
            streams,
            listeners: BTreeMap::new(),
            listening: Listening::default(),
            holds: false,
            held: None,
            recorder,
            flaw,
        })))
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, Network> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request. `at` is the sender's time.
    pub(crate) fn send(
        &self,
        member: usize,
        at: u64,
        request: Request,
    ) -> (PendingCall, oneshot::Receiver<Outcome>) {
        let (answer, receiver) = oneshot::channel();
        let call = self.state().send(member, at, request, answer);
        (PendingCall { net: self.clone(), call }, receiver)
    }
}

impl Network {
    pub(crate) fn at(&mut self, at: u64, what: What) {
        self.count += 1;
        self.events.push(Reverse(Event { at, number: self.count, what }));
    }

    /// The wall clock at a time, in milliseconds.
    pub(crate) fn unix(at: u64) -> u64 {
        EPOCH + at / MILLI
    }

    pub(crate) fn note(&self, entry: Entry) {
        let at = Moment { steady: self.now, unix: Self::unix(self.now) };
        let line = Line { at, process: "simulation".to_owned(), entry };
        self.recorder.write(line);
    }

    pub(crate) fn fault(&self, fault: Fault) {
        self.note(Entry::Fault(fault));
    }

    fn of_ten_thousand(&mut self, odds: u64) -> bool {
        self.random.below(10_000) < odds
    }

    pub(crate) fn latency(&mut self, member: usize) -> u64 {
        let slow = if self.members[member].slow > self.now { 100 * MILLI } else { 0 };
        // Mostly below a millisecond, so that messages overtake each other.
        let usual = 100 + self.random.below(900);
        let long = if self.random.percent(5) { self.random.below(10 * MILLI) } else { 0 };
        usual + long + if slow > 0 { self.random.below(slow) } else { 0 }
    }

    fn send(
        &mut self,
        member: usize,
        at: u64,
        request: Request,
        answer: oneshot::Sender<Outcome>,
    ) -> u64 {
        self.count += 1;
        let call = self.count;
        let at = at.max(self.now);
        if self.away > at {
            let _ = answer.send(Outcome::Refused);
            return call;
        }
        let Odds { lost, late, doubled } = self.odds;
        let (is_write, fate) = (request.is_write(), self.random.below(10_000));
        let mut arrives = at + self.latency(member);
        let mut is_doubled = false;
        // That flaw shows only if the first of two extends is late.
        let is_extend = request.is_extend();
        let is_blind = self.flaw == Some(Flaw::BlindExtends) && is_extend;
        let late = if is_blind { 3000 } else { late };
        if self.is_silent(member, request.connection()) {
            arrives = u64::MAX;
        } else if fate < lost {
            self.fault(Fault::Lost);
            arrives = u64::MAX;
        } else if fate < lost + late && is_write {
            self.fault(Fault::Late);
            let most = if self.random.percent(50) { SECOND / 2 } else { LATEST };
            arrives += 20 * MILLI + self.random.below(most);
            if is_blind || self.flaw == Some(Flaw::SettledTooSoon) && self.random.percent(10) {
                // These flaws show only if the connection is lost meanwhile.
                self.at(at + 5 * MILLI, What::Replaces { member });
            }
        } else if fate < lost + late + doubled && is_write && self.server.may_double() {
            self.fault(Fault::Doubled);
            is_doubled = true;
            let most = match self.random.below(3) {
                0 => 10 * MILLI,
                1 => SECOND / 2,
                _ => LATEST,
            };
            let again = at + self.random.below(most);
            // The answer to the one that comes first may be lost on the way through a proxy.
            let is_behind_a_proxy = !self.server.is_clustered() && self.random.percent(50);
            let answers = if is_behind_a_proxy && again < arrives { 0 } else { call };
            self.at(again, What::Arrives { call: answers, member, request: request.clone() });
            if self.flaw == Some(Flaw::ForgottenCopy) && request.is_release() {
                is_doubled = false;
            }
        }
        if is_write && std::mem::take(&mut self.holds) {
            self.held = Some(What::Arrives { call, member, request });
        } else if arrives < u64::MAX {
            self.at(arrives, What::Arrives { call, member, request });
        }
        self.calls.insert(call, Waiting { member, answer, is_doubled });
        call
    }

    /// Runs all events up to this time.
    pub(crate) fn run(&mut self, until: u64) {
        while self.events.peek().is_some_and(|Reverse(event)| event.at <= until) {
            let Some(Reverse(event)) = self.events.pop() else { break };
            self.now = self.now.max(event.at);
            self.happens(event);
        }
        self.now = self.now.max(until);
    }

    fn happens(&mut self, event: Event) {
        let at_server = !matches!(
            event.what,
            What::Answers { .. }
                | What::Hears { .. }
                | What::Replaces { .. }
                | What::Invalidates { .. }
                | What::Bytes { to_server: false, .. }
                | What::GivesUp { .. }
        );
        if at_server && event.at < self.frozen {
            // The server pauses, then goes on in the same order.
            self.events.push(Reverse(Event { at: self.frozen, ..event }));
            return;
        }
        match event.what {
            What::Arrives { call, member, request } => {
                if event.at >= self.away {
                    self.arrives(call, member, request);
                }
            }
            What::Goes { statement } => self.goes(statement),
            What::Bytes { connection, bytes, to_server: false } => {
                self.streams.deliver(connection, &bytes);
            }
            What::Bytes { connection, bytes, .. } => {
                if event.at >= self.away {
                    self.receives(connection, &bytes);
                }
            }
            What::Closes { connection } => self.closes(connection),
            What::GivesUp { connection } => self.streams.gives_up(connection),
            What::Takes => self.server.refuses(None),
            What::Answers { call, reply } => {
                if let Some(Waiting { answer, is_doubled, .. }) = self.calls.remove(&call) {
                    let _ = answer.send(Outcome::Answered(reply, is_doubled));
                }
            }
            What::Invalidates { connection, name } => {
                if let Some((member, of)) = self.listeners.get(&connection)
                    && !self.is_silent(*member, connection)
                {
                    let keys = vec![name.as_slice().into()];
                    let _ = of.send(Invalidation { keys, server: Node::new("simulated", 6379) });
                }
            }
            What::Listens { stream, request } => self.listens_at(stream, request),
            What::Hears { stream, answer } => self.listening.deliver(stream, answer),
            What::Replaces { member } => self.cut(member),
        }
    }

    fn arrives(&mut self, call: u64, member: usize, request: Request) {
        let micros = EPOCH * MILLI + self.now;
        match request {
            Request::Claim { .. } | Request::Write { .. } => {
                let reply = self.registers.carry_out(&request);
                self.answers(call, member, reply);
            }
            Request::Redis { connection, command, words } => {
                let Server::Redis { server, .. } = &mut self.server else { return };
                let (reply, changes) = server.carry_out(micros, connection, command, &words);
                self.invalidates(changes);
                self.answers(call, member, Reply::Redis(reply));
            }
            Request::Firestore(asked) => {
                let Server::Firestore(documents) = &mut self.server else { return };
                let (reply, heard) = documents.carry_out(micros, &asked);
                self.tells(heard);
                self.answers(call, member, Reply::Firestore(reply));
            }
            Request::Etcd(asked) => {
                let Server::Etcd(records) = &mut self.server else { return };
                let (reply, heard) = records.carry_out(micros, &asked);
                self.tells(heard);
                self.answers(call, member, Reply::Etcd(reply));
            }
            Request::Object(asked) => {
                let Server::ObjectStore(bucket) = &mut self.server else { return };
                let reply = bucket.carry_out(micros, asked);
                self.answers(call, member, Reply::Object(reply));
            }
        }
    }

    /// Tells connections of changes of records.
    fn invalidates(&mut self, changes: redis::Invalidations) {
        for (connection, name) in changes {
            // Sometimes a signal is lost.
            if self.random.percent(98) {
                let at = self.now + 100 + self.random.below(500);
                self.at(at, What::Invalidates { connection, name });
            }
        }
    }

    /// An operator empties the store: FLUSHALL.
    pub(crate) fn empties(&mut self) {
        if let Server::Redis { server, .. } = &mut self.server {
            let changes = server.flushes();
            self.invalidates(changes);
        }
    }

    fn answers(&mut self, call: u64, member: usize, reply: Reply) {
        if self.of_ten_thousand(self.odds.lost) {
            self.fault(Fault::Lost);
            return;
        }
        let at = self.now + self.latency(member);
        self.at(at, What::Answers { call, reply });
    }

    /// A member's connections are lost, with all its waiting calls. Messages on the network may still arrive.
    pub(crate) fn cut(&mut self, member: usize) {
        self.reconnects(member);
        for stream in self.listening.cut(member) {
            self.server.closes(stream);
        }
        let listeners = self.listeners.extract_if(.., |_, (of, _)| *of == member);
        let listeners: Vec<u64> = listeners.map(|(connection, _)| connection).collect();
        for connection in listeners {
            self.server.closes(connection);
        }
        self.streams.cut(member);
    }

    /// The number of a member's connection for requests.
    pub(crate) fn connection(&self, member: usize) -> u64 {
        self.members[member].number
    }

    /// A member replaces its connection for requests, and all its waiting calls fail. Returns the number of the new one.
    pub(crate) fn reconnects(&mut self, member: usize) -> u64 {
        self.count += 1;
        self.members[member].number = self.count;
        let mut cut: Vec<u64> = self
            .calls
            .iter()
            .filter(|(_, it)| it.member == member)
            .map(|(call, _)| *call)
            .collect();
        cut.sort_unstable();
        for call in cut {
            if let Some(Waiting { answer, .. }) = self.calls.remove(&call) {
                let _ = answer.send(Outcome::Cut);
            }
        }
        self.members[member].number
    }

    /// Returns true if the connection of this number is silent; 0 is the one for requests.
    pub(crate) fn is_silent(&self, member: usize, connection: u64) -> bool {
        let Connection { number, silent, .. } = self.members[member];
        silent >= if connection == 0 { number } else { connection }
    }

    /// All open connections of a member fall silent.
    pub(crate) fn silence(&mut self, member: usize) {
        self.members[member].silent = self.count;
        if let Server::Firestore(_) | Server::Etcd(_) | Server::ObjectStore(_) = self.server {
            // gRPC sends pings: in 40 s in earnest. A request over HTTP that is given up closes its connection.
            self.at(self.now + 3 * SECOND, What::Replaces { member });
        }
    }

    /// For a while, the first address of the server gives no answer to a member.
    pub(crate) fn hide(&mut self, member: usize, lasts: u64) {
        self.members[member].unreachable = self.now + lasts;
    }

    /// From now on, nothing goes wrong. Connections that are silent stay so.
    pub(crate) fn is_well_again(&mut self) {
        self.odds = Odds::NONE;
        for member in &mut self.members {
            (member.unreachable, member.slow) = (0, 0);
        }
    }

    /// Returns the microseconds until a new connection is open; `None` if it is refused.
    pub(crate) fn opens(&mut self, member: usize, at: u64) -> Option<u64> {
        if self.away > at {
            return None;
        }
        let hidden = self.members[member].unreachable.saturating_sub(at);
        Some(hidden + self.latency(member))
    }

    /// Opens a connection that hears of changes.
    pub(crate) fn listens(&mut self, member: usize) -> (u64, broadcast::Receiver<Invalidation>) {
        self.count += 1;
        let (sender, receiver) = broadcast::channel(256);
        self.listeners.insert(self.count, (member, sender));
        (self.count, receiver)
    }

    pub(crate) fn stops_listening(&mut self, connection: u64) {
        if self.listeners.remove(&connection).is_some() {
            self.server.closes(connection);
        }
    }

    /// Holds the next write back.
    pub(crate) fn hold_next(&mut self) {
        self.holds = true;
    }

    /// The write that was held back arrives, after its sender has lost the connection. Returns true if there is one.
    pub(crate) fn deliver(&mut self) -> bool {
        let held = self.held.take();
        held.is_some_and(|held| {
            self.streams.cut(0);
            self.at(self.now, held);
            true
        })
    }

    /// The server refuses writes for a while, with this answer.
    pub(crate) fn refuse(&mut self, refusal: Refusal, lasts: u64) {
        self.server.refuses(Some(refusal));
        self.at(self.now + lasts, What::Takes);
    }

    pub(crate) fn slow_down(&mut self, member: usize, lasts: u64) {
        self.members[member].slow = self.now + lasts;
    }

    /// Pauses the server. Then it goes on with the requests that it got.
    pub(crate) fn freeze(&mut self, lasts: u64) {
        self.frozen = self.now + lasts;
    }

    /// Restarts the server. Committed data stays.
    pub(crate) fn restart(&mut self, lasts: u64) {
        self.away = self.now + lasts;
        self.server.restarts();
        self.streams.restarts();
        for member in 0..self.members.len() {
            self.cut(member);
        }
        // Requests on the network are lost.
        let events = std::mem::take(&mut self.events);
        let stays = |event: &Reverse<Event>| match &event.0.what {
            What::Arrives { .. } | What::Bytes { to_server: true, .. } => event.0.at >= self.away,
            What::Goes { .. } => false,
            _ => true,
        };
        self.events = events.into_iter().filter(stays).collect();
    }

    pub(crate) fn live(&mut self) -> u64 {
        let now = Self::unix(self.now);
        self.server.live(now)
    }

    /// The final contents of the registers.
    pub(crate) fn note_registers(&self) {
        for (register, value, writes) in self.registers.found() {
            self.note(Entry::Register { register, value, writes });
        }
    }
}
