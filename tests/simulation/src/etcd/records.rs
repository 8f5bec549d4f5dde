//! The store: records with revisions, transactions, and watches.

use std::collections::BTreeMap;

use serde_json::Value;
use syncguard_etcd::simulated::tonic::Status;
use syncguard_etcd::simulated::{
    Compare, DELETE, Event, KeyValue, RangeRequest, RangeResponse, Request, RequestOp,
    ResponseHeader, ResponseOp, Target, TxnRequest, TxnResponse, WatchRequest, WatchResponse,
    WatchUnion,
};
use syncguard_history::Random;

use crate::listening::{Heard, Told};

/// A call.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    Txn(TxnRequest),
    /// The time of this member.
    Date(usize),
}

/// Its answer.
#[derive(Debug)]
pub(crate) enum Answer {
    Txn(TxnResponse),
    Date(i64),
}

pub(crate) type Reply = Result<Answer, Status>;

impl Call {
    /// Returns true if it may change a record.
    pub(crate) fn is_write(&self) -> bool {
        let writes = |op: &RequestOp| !matches!(op.request, Some(Request::Range(_)));
        matches!(self, Self::Txn(txn) if txn.success.iter().any(writes))
    }

    fn puts(txn: &TxnRequest) -> bool {
        let puts = |op: &RequestOp| matches!(op.request, Some(Request::Put(_) | Request::Txn(_)));
        txn.success.iter().any(puts)
    }
}

pub(crate) struct Records {
    seed: u64,
    all: BTreeMap<Vec<u8>, Record>,
    revision: i64,
    writes: u64,
    /// The names that streams watch for deletions, by stream and watch.
    watches: BTreeMap<u64, BTreeMap<i64, Vec<u8>>>,
    quota: Quota,
}

struct Record {
    value: Vec<u8>,
    revision: i64,
}

#[derive(PartialEq, Eq)]
enum Quota {
    Free,
    /// The next write crosses the quota: it fails, and is carried out.
    Reached,
    Full,
}

/// One of this many writes is answered as by a member whose leader is gone; every second one of them is carried out.
const LEADERLESS: u64 = 211;

/// How long an expired lock counts as live, in milliseconds.
const TOLERANCE: u64 = 1000;

/// The beginning of the names of locks.
pub(super) const LOCKS: &[u8] = b"syncguard/l/";

pub(super) const MEMBERS: usize = 5;
pub(super) const CLUSTER: u64 = 7;

/// The largest difference of the clocks of two members, in milliseconds.
pub(crate) const APART: u64 = 300;

impl Records {
    /// A store without records. The seed decides about the clocks of the members.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            seed,
            all: BTreeMap::new(),
            revision: 0,
            writes: 0,
            watches: BTreeMap::new(),
            quota: Quota::Free,
        }
    }

    /// The clock of a member in microseconds. The clock of one may be wrong by up to an hour, and steps.
    fn clock(&self, now: u64, member: usize) -> u64 {
        const HOUR: u64 = 3_600_000_000;
        let random = |salt: u64, most: u64| Random::new(self.seed ^ salt).below(most);
        let number = member as u64;
        if number == random(99, 2 * MEMBERS as u64) {
            return now + random(now / 7_000_000, 2 * HOUR) - HOUR;
        }
        now + random(number << 32, APART * 1000) - APART * 500
    }

    /// Carries out a call. `now` is in microseconds since 1970.
    pub(crate) fn carry_out(&mut self, now: u64, call: &Call) -> (Reply, Heard) {
        let txn = match call {
            Call::Txn(txn) => txn,
            Call::Date(member) => {
                let second = self.clock(now, *member) / 1_000_000;
                let second = i64::try_from(second).expect("63 bits");
                return (Ok(Answer::Date(second)), Heard::new());
            }
        };
        if !call.is_write() {
            return (Ok(Answer::Txn(self.answer(true, &txn.success))), Heard::new());
        }
        self.writes += 1;
        let full = || Err(Status::resource_exhausted("etcdserver: mvcc: database space exceeded"));
        if Call::puts(txn) && self.quota == Quota::Full {
            return (full(), Heard::new());
        }
        let is_leaderless = self.writes.is_multiple_of(LEADERLESS);
        let timed_out = || Err(Status::unavailable("etcdserver: request timed out"));
        if is_leaderless && self.writes.is_multiple_of(2) {
            return (timed_out(), Heard::new());
        }
        let (answer, heard) = self.txn(txn);
        let reply = if Call::puts(txn) && self.quota == Quota::Reached {
            self.quota = Quota::Full;
            full()
        } else if is_leaderless {
            timed_out()
        } else {
            Ok(Answer::Txn(answer))
        };
        (reply, heard)
    }

    fn txn(&mut self, txn: &TxnRequest) -> (TxnResponse, Heard) {
        if !txn.compare.iter().all(|compare| self.holds(compare)) {
            return (self.answer(false, &txn.failure), Heard::new());
        }
        self.revision += 1;
        let mut heard = Heard::new();
        let mut changed = std::collections::BTreeSet::new();
        // Each transaction in this one with whether its conditions hold before anything is written.
        let (mut within, mut responses) = (Vec::new(), Vec::new());
        for op in &txn.success {
            let Some(Request::Txn(txn)) = &op.request else { continue };
            let succeeded = txn.compare.iter().all(|compare| self.holds(compare));
            within.extend(txn.success.iter().map(|op| (op, succeeded)));
            let txn = TxnResponse { succeeded, ..TxnResponse::default() };
            responses.push(ResponseOp { range: None, txn: Some(txn) });
        }
        let ops = txn.success.iter().map(|op| (op, true));
        for (op, is_done) in ops.chain(within) {
            match op.request.as_ref().expect("a request") {
                Request::Put(put) => {
                    assert!(changed.insert(put.key.clone()), "duplicate key given in txn request");
                    if is_done {
                        let record = Record { value: put.value.clone(), revision: self.revision };
                        self.all.insert(put.key.clone(), record);
                    }
                }
                Request::DeleteRange(delete) => {
                    assert!(changed.insert(delete.key.clone()), "duplicate key");
                    if self.all.remove(&delete.key).is_some() {
                        heard.extend(self.deleted(&delete.key));
                    }
                }
                Request::Txn(_) => {}
                Request::Range(_) => panic!("a read in a change"),
            }
        }
        (TxnResponse { responses, ..self.answer(true, &[]) }, heard)
    }

    fn holds(&self, compare: &Compare) -> bool {
        let record = self.all.get(&compare.key);
        match compare.target_union.as_ref().expect("a target") {
            Target::ModRevision(seen) => record.map_or(0, |record| record.revision) == *seen,
            Target::Value(seen) => record.is_some_and(|record| record.value == *seen),
        }
    }

    /// An answer with these reads.
    fn answer(&self, succeeded: bool, reads: &[RequestOp]) -> TxnResponse {
        let read = |op: &RequestOp| match op.request.as_ref().expect("a request") {
            Request::Range(range) => ResponseOp { range: Some(self.range(range)), txn: None },
            _ => panic!("a change among reads"),
        };
        let header = ResponseHeader { cluster_id: CLUSTER, revision: self.revision };
        TxnResponse { header: Some(header), succeeded, responses: reads.iter().map(read).collect() }
    }

    /// The one record, or the first ones of a range.
    fn range(&self, asked: &RangeRequest) -> RangeResponse {
        let limit = usize::try_from(asked.limit).ok().filter(|limit| *limit > 0);
        let limit = limit.unwrap_or(usize::MAX);
        let end = match &asked.range_end[..] {
            [] => [&asked.key[..], b"\0"].concat(),
            end => end.to_vec(),
        };
        let mut found = self.all.range(asked.key.clone()..end);
        let kv = |(key, record): (&Vec<u8>, &Record)| KeyValue {
            key: key.clone(),
            mod_revision: record.revision,
            value: record.value.clone(),
        };
        let kvs = found.by_ref().take(limit).map(kv).collect();
        RangeResponse { kvs, more: found.next().is_some() }
    }

    /// What the streams hear that watch this name.
    fn deleted(&self, name: &[u8]) -> Heard {
        let mut heard = Heard::new();
        for (stream, watches) in &self.watches {
            for (watch_id, _) in watches.iter().filter(|(_, of)| *of == name) {
                let events = vec![Event { r#type: DELETE }];
                let answer =
                    WatchResponse { watch_id: *watch_id, events, ..WatchResponse::default() };
                heard.push((*stream, Told::Etcd(answer)));
            }
        }
        heard
    }

    /// A request on a stream.
    pub(crate) fn listens(&mut self, stream: u64, request: WatchRequest) -> Heard {
        let watches = self.watches.entry(stream).or_default();
        let answer = match request.request_union.expect("a request") {
            WatchUnion::Create(create) => {
                let watch_id = watches.keys().next_back().map_or(0, |last| last + 1);
                watches.insert(watch_id, create.key);
                let created = true;
                WatchResponse { watch_id, created, ..WatchResponse::default() }
            }
            WatchUnion::Cancel(cancel) => {
                watches.remove(&cancel.watch_id);
                let (watch_id, canceled) = (cancel.watch_id, true);
                WatchResponse { watch_id, canceled, ..WatchResponse::default() }
            }
        };
        vec![(stream, Told::Etcd(answer))]
    }

    pub(crate) fn closes(&mut self, stream: u64) {
        self.watches.remove(&stream);
    }

    pub(crate) fn restarts(&mut self) {
        self.watches.clear();
    }

    pub(crate) fn refuses(&mut self, refuses: bool) {
        self.quota = if refuses { Quota::Reached } else { Quota::Free };
    }

    /// The number of live locks at a time in milliseconds.
    pub(crate) fn live(&self, now: u64) -> u64 {
        let locks = self.all.range(LOCKS.to_vec()..);
        let locks = locks.take_while(|(name, _)| name.starts_with(LOCKS));
        let is_live = |(_, record): &(&Vec<u8>, &Record)| {
            let lock: Value = serde_json::from_slice(&record.value).expect("a lock");
            lock["expiresAtMs"].as_u64().is_some_and(|expiry| expiry + TOLERANCE > now)
        };
        locks.filter(is_live).count() as u64
    }
}
