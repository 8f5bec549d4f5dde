//! Flaws of the wire: what they leave out of a transaction.

use syncguard_etcd::simulated::{Request, RequestOp, TxnRequest};

use super::records::LOCKS;
use crate::flaw::Flaw;

/// The beginning of the names of counters.
const COUNTERS: &[u8] = b"syncguard/f/";

/// The transaction as it arrives.
pub(super) fn flawed(flaw: Option<Flaw>, mut txn: TxnRequest) -> TxnRequest {
    for op in &mut txn.success {
        if let Some(Request::Txn(txn)) = &mut op.request {
            *txn = flawed(flaw, std::mem::take(txn));
        }
    }
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
        _ => {}
    }
    txn
}
