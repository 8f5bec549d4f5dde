//! Transactions: what is compared, what is written if all of it is so, and what is read otherwise.

use std::fmt;

use syncguard_core::{Fence, LockError};

use crate::error;
use crate::wire::{
    Compare, DeleteRangeRequest, KeyValue, MOD_REVISION, PutRequest, RangeRequest, RangeResponse,
    Request, RequestOp, Target, TxnRequest, TxnResponse, VALUE,
};

/// One state of a record.
///
/// A restored snapshot gives revisions out a second time, so the value belongs to the state as well.
#[derive(Clone, PartialEq, PartialOrd)]
pub(crate) struct Version {
    pub(crate) revision: i64,
    pub(crate) value: Vec<u8>,
}

impl Version {
    pub(crate) fn of(stored: KeyValue) -> Self {
        Self { revision: stored.mod_revision, value: stored.value }
    }
}

/// Without the value, which has the key and the lock id.
impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Version({})", self.revision)
    }
}

/// A read of these records as one step: linearizable, and nothing is written.
pub(crate) fn read(names: &[impl AsRef<str>]) -> TxnRequest {
    TxnRequest { success: gets(names), ..TxnRequest::default() }
}

/// As [`read`], of a range of names or of the past.
pub(crate) fn read_range(range: RangeRequest) -> TxnRequest {
    TxnRequest { success: vec![op(Request::Range(range))], ..TxnRequest::default() }
}

/// A change under conditions; if one of them does not hold, nothing is written.
#[derive(Default)]
pub(crate) struct Txn(TxnRequest);

impl Txn {
    /// The record still has this version, or is absent.
    pub(crate) fn if_version(self, name: &str, seen: Option<&Version>) -> Self {
        let Some(Version { revision, value }) = seen else { return self.if_absent(name) };
        let txn = self.when(name, MOD_REVISION, Target::ModRevision(*revision));
        txn.when(name, VALUE, Target::Value(value.clone()))
    }

    pub(crate) fn if_absent(self, name: &str) -> Self {
        self.when(name, MOD_REVISION, Target::ModRevision(0))
    }

    /// Moves a counter, if it is as it was seen. Its number never comes back, so it needs no revision.
    pub(crate) fn count(self, name: &str, seen: Option<Fence>, next: Fence) -> Self {
        let digits = |fence: Fence| fence.to_string().into_bytes();
        let txn = match seen {
            Some(seen) => self.when(name, VALUE, Target::Value(digits(seen))),
            None => self.if_absent(name),
        };
        txn.put(name, digits(next))
    }

    pub(crate) fn put(mut self, name: &str, value: Vec<u8>) -> Self {
        self.0.success.push(op(Request::Put(PutRequest { key: name.into(), value })));
        self
    }

    pub(crate) fn delete(mut self, name: &str) -> Self {
        self.0.success.push(op(Request::DeleteRange(DeleteRangeRequest { key: name.into() })));
        self
    }

    /// The transaction, which reads these records if a condition does not hold.
    pub(crate) fn or_read(mut self, names: &[impl AsRef<str>]) -> TxnRequest {
        self.0.failure = gets(names);
        self.0
    }

    /// Several changes as one step, each under its own conditions.
    pub(crate) fn each(txns: impl IntoIterator<Item = Self>) -> TxnRequest {
        let success = txns.into_iter().map(|txn| op(Request::Txn(txn.0))).collect();
        TxnRequest { success, ..TxnRequest::default() }
    }

    fn when(mut self, name: &str, target: i32, value: Target) -> Self {
        self.0.compare.push(Compare { target, key: name.into(), target_union: Some(value) });
        self
    }
}

fn gets(names: &[impl AsRef<str>]) -> Vec<RequestOp> {
    let get = |name: &str| RangeRequest { key: name.into(), ..RangeRequest::default() };
    names.iter().map(|name| op(Request::Range(get(name.as_ref())))).collect()
}

fn op(request: Request) -> RequestOp {
    RequestOp { request: Some(request) }
}

/// The records that a transaction has read, in the order of the names.
pub(crate) fn records(answer: TxnResponse) -> impl Iterator<Item = Option<KeyValue>> {
    ranges(answer).map(|range| range.kvs.into_iter().next())
}

/// The range that a transaction has read.
pub(crate) fn range(answer: TxnResponse) -> Result<RangeResponse, LockError> {
    ranges(answer).next().ok_or_else(missing)
}

pub(crate) fn missing() -> LockError {
    error::unintelligible("a record is missing in it")
}

/// Whether each of several changes was carried out.
pub(crate) fn carried_out(answer: TxnResponse) -> impl Iterator<Item = bool> {
    answer.responses.into_iter().map(|response| response.txn.is_some_and(|txn| txn.succeeded))
}

/// The revision at which a change was carried out.
pub(crate) fn revision(answer: &TxnResponse) -> Result<i64, LockError> {
    let header = answer.header.as_ref();
    header.map(|header| header.revision).ok_or_else(|| error::unintelligible("it has no revision"))
}

fn ranges(answer: TxnResponse) -> impl Iterator<Item = RangeResponse> {
    answer.responses.into_iter().filter_map(|response| response.range)
}
