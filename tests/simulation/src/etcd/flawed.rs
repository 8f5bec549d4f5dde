//! Flaws of the wire: what they leave out of a transaction.

use serde_json::Value;
use syncguard_etcd::wire::{PutRequest, Request, RequestOp, Target, TxnRequest};

use super::records::{LOCKS, TOLERANCE};
use crate::flaw::Flaw;

/// The beginning of the names of counters.
const COUNTERS: &[u8] = b"syncguard/f/";

/// The transaction as it arrives.
pub(super) fn flawed(flaw: Option<Flaw>, mut txn: TxnRequest) -> TxnRequest {
    let puts = |names: &[u8]| {
        let is_put = |op: &RequestOp| matches!(&op.request, Some(Request::Put(put)) if put.key.starts_with(names));
        txn.success.iter().any(is_put)
    };
    let (locks, counts) = (puts(LOCKS), puts(COUNTERS));
    let is_delete = |op: &RequestOp| matches!(op.request, Some(Request::DeleteRange(_)));
    let frees = !locks && txn.success.iter().any(is_delete);
    match flaw {
        Some(Flaw::UncheckedCounter) if locks => {
            txn.compare.retain(|compare| !compare.key.starts_with(COUNTERS));
        }
        Some(Flaw::UncheckedRelease) if frees => txn.compare.clear(),
        Some(Flaw::UncheckedExtend) if locks && !counts => txn.compare.clear(),
        Some(Flaw::UnmovedCounter) if counts && !locks && !frees => return TxnRequest::default(),
        Some(Flaw::HastyClients) => {
            txn.success.iter_mut().for_each(shorten);
            // The process remembers what it meant to write.
            txn.compare.retain(|it| !matches!(it.target_union, Some(Target::Value(_))));
        }
        _ => {}
    }
    txn
}

/// The lock is stored without its tolerance.
fn shorten(op: &mut RequestOp) {
    if let Some(Request::Put(PutRequest { key, value })) = &mut op.request
        && key.starts_with(LOCKS)
    {
        let mut lock: Value = serde_json::from_slice(value).expect("a lock");
        let expires_at = lock["expiresAtMs"].as_u64().expect("a time");
        lock["expiresAtMs"] = (expires_at - TOLERANCE).into();
        *value = lock.to_string().into();
    }
}
