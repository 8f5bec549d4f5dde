//! Examines Firestore.

use syncguard::DynBackend;
use syncguard::firestore::FirestoreBackend;

use super::examination::{self, Examination};
use crate::exit::Failure;

pub(super) async fn examine(url: &str) -> Result<Examination, Failure> {
    let backend = FirestoreBackend::connect(url).await?;
    let backend = DynBackend::new(backend);
    let findings = examination::health(&backend).await?;
    Ok(Examination { backend, findings, access: Some(access(url)), round_trips: (2, 2) })
}

/// The role that gives this user the rights that locks need.
fn access(url: &str) -> String {
    let project =
        url.trim_start_matches("firestore://").split(['/', '?']).next().unwrap_or_default();
    format!(
        "gcloud projects add-iam-policy-binding {project} --member=MEMBER --role=roles/datastore.user"
    )
}
