//! Examines Firestore.

use syncguard::contract::IsLockedRequest;
use syncguard::firestore::FirestoreBackend;
use syncguard::{DynBackend, LockBackend as _};

use super::clock;
use super::examination::Examination;
use super::probe::KEY;
use crate::exit::{Failure, Status};

pub(super) async fn examine(url: &str) -> Result<Examination, Failure> {
    let backend = FirestoreBackend::connect(url).await?;
    // Every answer carries the server's time. The first answer includes the time to connect, and so
    // is less exact.
    for _ in 0..3 {
        if let Err(error) = backend.is_locked(IsLockedRequest::new(KEY)?).await {
            let failure = Failure::from(error);
            if failure.status() == Status::UNAVAILABLE {
                return Err(failure);
            }
        }
    }
    let findings =
        backend.clock_drift().map(|drift| clock::finding(drift, "Firestore")).into_iter().collect();
    Ok(Examination {
        backend: DynBackend::new(backend),
        findings,
        access: Some(access(url)),
        round_trips: (2, 2),
    })
}

/// The role that gives this user the rights that locks need.
fn access(url: &str) -> String {
    let project =
        url.trim_start_matches("firestore://").split(['/', '?']).next().unwrap_or_default();
    format!(
        "gcloud projects add-iam-policy-binding {project} --member=MEMBER --role=roles/datastore.user"
    )
}
