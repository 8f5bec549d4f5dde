//! Firestore's own client on an emulator.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result};
use syncguard::firestore::gcloud_sdk::google::firestore::v1::firestore_client::FirestoreClient;
use syncguard::firestore::gcloud_sdk::google_cloud_auth::credentials::{
    CacheableResource, Credentials, CredentialsProvider, EntityTag,
};
use syncguard::firestore::gcloud_sdk::google_cloud_auth::errors::CredentialsError;
use syncguard::firestore::gcloud_sdk::tonic::codegen::http::{Extensions, HeaderValue, header};
use syncguard::firestore::gcloud_sdk::tonic::transport::Endpoint;
use syncguard::firestore::gcloud_sdk::{GoogleAuthHeaders, GoogleAuthMiddleware, HeaderMap};

/// A client that adds its calls to the count.
///
/// The client uses this token, which the emulator takes for the administrator's if it is "owner". Without a token, the client
/// asks for credentials and never gets any.
///
/// # Errors
///
/// For a bad address or token.
pub fn emulator_client(
    host_port: &str,
    database: &str,
    token: Option<&str>,
    calls: Arc<AtomicU64>,
) -> Result<FirestoreClient<GoogleAuthMiddleware>> {
    let endpoint = Endpoint::from_shared(format!("http://{host_port}"))?;
    let mut token =
        token.map(|token| HeaderValue::from_str(&format!("Bearer {token}"))).transpose()?;
    if let Some(token) = &mut token {
        // Marked as the library marks real tokens.
        token.set_sensitive(true);
    }
    let caller = Caller { tag: EntityTag::new(), token, calls };
    let headers = GoogleAuthHeaders::from(Credentials::from(caller));
    let database = Some(database.to_owned());
    let service = GoogleAuthMiddleware::new(endpoint.connect_lazy(), headers, database);
    Ok(FirestoreClient::new(service.ok().context("a database's name")?))
}

/// The source of the token, which is asked once for each call.
#[derive(Debug)]
struct Caller {
    tag: EntityTag,
    token: Option<HeaderValue>,
    calls: Arc<AtomicU64>,
}

impl CredentialsProvider for Caller {
    async fn headers(
        &self,
        _: Extensions,
    ) -> Result<CacheableResource<HeaderMap>, CredentialsError> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let Some(token) = self.token.clone() else { return std::future::pending().await };
        let data = HeaderMap::from_iter([(header::AUTHORIZATION, token)]);
        Ok(CacheableResource::New { entity_tag: self.tag.clone(), data })
    }

    async fn universe_domain(&self) -> Option<String> {
        None
    }
}
