//! Transactions: what is compared, what is written if all of it is so, and what is read otherwise.

use syncguard_core::LockError;

use crate::error;
use crate::wire::{
    Compare, DeleteRangeRequest, KeyValue, MOD_REVISION, PutRequest, RangeRequest, RangeResponse,
    Request, RequestOp, Target, TxnRequest, TxnResponse, VALUE,
};

/// One state of a record.
///
/// A restored snapshot gives revisions out a second time, so the value belongs to the state as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) revision: i64,
    pub(crate) value: Vec<u8>,
}

/// A read of these records as one step: linearizable, and nothing is written.
pub(crate) fn read(names: &[&str]) -> TxnRequest {
    TxnRequest { success: gets(names), ..TxnRequest::default() }
}

/// A read of the past, as [`read`].
pub(crate) fn read_at(range: RangeRequest) -> TxnRequest {
    TxnRequest { success: vec![op(Request::Range(range))], ..TxnRequest::default() }
}

/// A read of a range of names, as [`read`].
pub(crate) fn read_range(from: String, end: String, limit: usize) -> TxnRequest {
    let range = RangeRequest {
        key: from.into_bytes(),
        range_end: end.into_bytes(),
        limit: i64::try_from(limit).unwrap_or(i64::MAX),
        revision: 0,
    };
    read_at(range)
}

/// A change under conditions; if one of them does not hold, nothing is written.
#[derive(Default)]
pub(crate) struct Change(TxnRequest);

impl Change {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// The record still has this version.
    pub(crate) fn if_unchanged(self, name: &str, seen: &Version) -> Self {
        self.when(name, Target::ModRevision(seen.revision)).if_value(name, &seen.value)
    }

    /// The record has this value.
    pub(crate) fn if_value(self, name: &str, value: &[u8]) -> Self {
        self.when(name, Target::Value(value.to_vec()))
    }

    pub(crate) fn if_absent(self, name: &str) -> Self {
        self.when(name, Target::ModRevision(0))
    }

    pub(crate) fn put(mut self, name: &str, value: Vec<u8>) -> Self {
        let put = PutRequest { key: name.into(), value };
        self.0.success.push(op(Request::Put(put)));
        self
    }

    pub(crate) fn delete(mut self, name: &str) -> Self {
        let delete = DeleteRangeRequest { key: name.into() };
        self.0.success.push(op(Request::DeleteRange(delete)));
        self
    }

    /// The change, which reads these records if a condition does not hold.
    pub(crate) fn or_read(mut self, names: &[&str]) -> TxnRequest {
        self.0.failure = gets(names);
        self.0
    }

    /// The same change without its conditions, for a planted flaw.
    pub(crate) fn without_conditions_if(mut self, flawed: bool) -> Self {
        if flawed {
            self.0.compare.clear();
        }
        self
    }

    fn when(mut self, name: &str, value: Target) -> Self {
        let target = match value {
            Target::ModRevision(_) => MOD_REVISION,
            Target::Value(_) => VALUE,
        };
        self.0.compare.push(Compare { target, key: name.into(), target_union: Some(value) });
        self
    }
}

fn gets(names: &[&str]) -> Vec<RequestOp> {
    let get = |name: &&str| RangeRequest { key: (*name).into(), ..RangeRequest::default() };
    names.iter().map(|name| op(Request::Range(get(name)))).collect()
}

fn op(request: Request) -> RequestOp {
    RequestOp { request: Some(request) }
}

/// The records that a transaction has read, in the order of the names.
pub(crate) fn records<const N: usize>(
    answer: TxnResponse,
) -> Result<[Option<KeyValue>; N], LockError> {
    let mut ranges = ranges(answer);
    let mut records = [const { None }; N];
    for record in &mut records {
        let range =
            ranges.next().ok_or_else(|| error::unintelligible("a record is missing in it"))?;
        *record = range.kvs.into_iter().next();
    }
    Ok(records)
}

/// The range that a transaction has read.
pub(crate) fn range(answer: TxnResponse) -> Result<RangeResponse, LockError> {
    ranges(answer).next().ok_or_else(|| error::unintelligible("the range is missing in it"))
}

/// The revision at which a change was carried out.
pub(crate) fn revision(answer: &TxnResponse) -> Result<i64, LockError> {
    let header = answer.header.as_ref();
    header.map(|header| header.revision).ok_or_else(|| error::unintelligible("it has no revision"))
}

fn ranges(answer: TxnResponse) -> impl Iterator<Item = RangeResponse> {
    answer.responses.into_iter().filter_map(|response| response.range)
}
