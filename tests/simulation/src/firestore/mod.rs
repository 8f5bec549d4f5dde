//! Firestore: the backend `syncguard-firestore` without gRPC, and a database of documents.

mod calls;
mod documents;
mod flawed;

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use syncguard_firestore::{FirestoreBackend, FirestoreOptions, simulated};

pub(crate) use self::documents::{Call, Documents, Reply};

use self::calls::Connection;
use crate::link::Link;

/// The backend of a process, whose clock is wrong.
pub(crate) fn backend(link: &Arc<Link>) -> FirestoreBackend {
    let (clock, bound) = (Arc::clone(link), link.bound);
    let options = FirestoreOptions::new()
        .with_project("simulated")
        .with_request_timeout(bound)
        .with_operation_timeout(2 * bound)
        // So few that the backend has to ask.
        .with_remembered_locks(64)
        .with_clock(move || UNIX_EPOCH + Duration::from_millis(clock.wall()));
    let connection = Connection(Arc::clone(link));
    simulated::over(Arc::new(connection.clone()), Box::new(connection), options).expect("a backend")
}
