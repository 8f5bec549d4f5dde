//! Queries of an emulator that need Firestore's own client.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use syncguard::firestore::gcloud_sdk::google::firestore::v1::ListDocumentsRequest;
use syncguard::firestore::gcloud_sdk::google::firestore::v1::value::ValueType;

use crate::register::emulator_client;

pub(super) const PROJECT: &str = "fleet";

/// The number of locks.
pub(super) async fn live(port: u16) -> Result<u64> {
    let database = format!("projects/{PROJECT}/databases/(default)");
    let host_port = format!("127.0.0.1:{port}");
    let mut client = emulator_client(&host_port, &database, Some("owner"), Arc::default())?;
    let request = ListDocumentsRequest {
        parent: format!("{database}/documents"),
        collection_id: "locks".to_owned(),
        page_size: 300,
        ..ListDocumentsRequest::default()
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis().cast_signed();
    let documents = client.list_documents(request).await?.into_inner().documents;
    let live = documents.iter().filter(|document| {
        let expiry = document.fields.get("expiresAtMs").and_then(|it| it.value_type.as_ref());
        !matches!(expiry, Some(ValueType::IntegerValue(at)) if i128::from(*at) + 1000 <= now)
    });
    Ok(live.count() as u64)
}

/// The emulator does not report this.
pub(super) fn version() -> String {
    "Firestore emulator".to_owned()
}
