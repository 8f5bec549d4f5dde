//! Examines a bucket.

use syncguard::DynBackend;
use syncguard::object_store::ObjectStoreBackend;

use super::examination::{self, Examination};
use super::finding::Finding;
use crate::exit::Failure;

pub(super) async fn examine(url: &str) -> Result<Examination, Failure> {
    let store = ObjectStoreBackend::connect(url).await?;
    let backend = DynBackend::new(store.clone());
    let mut findings = examination::health(&backend).await?;
    // An error of the check is that of the health as well.
    if let Ok(report) = store.check_conditions().await {
        let thorough = Finding::from(report.finding());
        findings.retain(|finding| finding.about != thorough.about);
        findings.push(thorough);
    }
    Ok(Examination { backend, findings, round_trips: (2, 2), access: Some(ACCESS.to_owned()) })
}

/// The rights of a user.
const ACCESS: &str = "let the user get, put, delete and list objects below the prefix: s3:GetObject, s3:PutObject, \
                      s3:DeleteObject and s3:ListBucket; Storage Blob Data Contributor; roles/storage.objectUser";
