//! etcd: the backend `syncguard-etcd` without gRPC, and a store of records.

mod calls;
mod flawed;
mod records;

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use syncguard_etcd::{EtcdBackend, EtcdOptions, simulated};

pub(crate) use self::records::{APART, Call, Records, Reply};

use self::calls::Connection;
use crate::link::Link;

/// The backend of a process, whose clock is wrong.
pub(crate) fn backend(link: &Arc<Link>) -> EtcdBackend {
    let (clock, bound) = (Arc::clone(link), link.bound);
    let options = EtcdOptions::new()
        .with_request_timeout(bound)
        .with_operation_timeout(2 * bound)
        // So few that the backend has to ask.
        .with_remembered_locks(64)
        .with_clock(move || UNIX_EPOCH + Duration::from_millis(clock.wall()));
    simulated::over(Arc::new(Connection(Arc::clone(link))), options).expect("a backend")
}
