//! A document for each register. Firestore has no conditional update by content, so a write states the version that
//! was read, and starts over if that has changed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use syncguard::firestore::gcloud_sdk::google::firestore::v1::firestore_client::FirestoreClient;
use syncguard::firestore::gcloud_sdk::google::firestore::v1::precondition::ConditionType;
use syncguard::firestore::gcloud_sdk::google::firestore::v1::value::ValueType;
use syncguard::firestore::gcloud_sdk::google::firestore::v1::write::Operation;
use syncguard::firestore::gcloud_sdk::google::firestore::v1::{
    CommitRequest, Document, GetDocumentRequest, Precondition, Value, Write,
};
use syncguard::firestore::gcloud_sdk::google_cloud_auth::credentials::{
    CacheableResource, Credentials, CredentialsProvider, EntityTag,
};
use syncguard::firestore::gcloud_sdk::google_cloud_auth::errors::CredentialsError;
use syncguard::firestore::gcloud_sdk::tonic::Code;
use syncguard::firestore::gcloud_sdk::tonic::codegen::http::{Extensions, HeaderValue, header};
use syncguard::firestore::gcloud_sdk::tonic::transport::Endpoint;
use syncguard::firestore::gcloud_sdk::{GoogleAuthHeaders, GoogleAuthMiddleware, HeaderMap};

use super::State;
use crate::fleet::Emulated;

#[derive(Clone)]
pub(super) struct Firestore {
    client: FirestoreClient<GoogleAuthMiddleware>,
    database: String,
}

/// Firestore's own client on an emulator. It adds its calls to the count.
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

impl Firestore {
    pub(super) fn connect(url: &str) -> Result<Self> {
        let Emulated { host_port, project } = Emulated::parse(url)?;
        let database = format!("projects/{project}/databases/(default)");
        let client = emulator_client(host_port, &database, Some("owner"), Arc::default())?;
        Ok(Self { client, database })
    }

    pub(super) async fn claim(&self, register: &str, fence: u64) -> Result<Option<u64>> {
        self.change(register, fence, |_| {}).await.map(|state| state.map(|state| state.value))
    }

    pub(super) async fn write(&self, register: &str, fence: u64, value: u64) -> Result<bool> {
        let write = |state: &mut State| (state.value, state.writes) = (value, state.writes + 1);
        Ok(self.change(register, fence, write).await?.is_some())
    }

    pub(super) async fn state(&self, register: &str) -> Result<State> {
        Ok(self.read(register).await?.0)
    }

    async fn change(
        &self,
        register: &str,
        fence: u64,
        change: impl Fn(&mut State),
    ) -> Result<Option<State>> {
        for attempt in 0..100_u64 {
            let (mut state, version) = self.read(register).await?;
            if fence < state.fence {
                return Ok(None);
            }
            state.fence = fence;
            change(&mut state);
            let write = Write {
                operation: Some(Operation::Update(self.document(register, state)?)),
                current_document: Some(Precondition { condition_type: Some(version) }),
                ..Write::default()
            };
            let database = self.database.clone();
            let commit =
                CommitRequest { database, writes: vec![write], ..CommitRequest::default() };
            match self.client.clone().commit(commit).await {
                Ok(_) => return Ok(Some(state)),
                Err(status) if is_conflict(status.code()) => {
                    tokio::time::sleep(Duration::from_millis(attempt.min(20))).await;
                }
                Err(status) => bail!("a register: {status}"),
            }
        }
        bail!("a register that is always busy")
    }

    async fn read(&self, register: &str) -> Result<(State, ConditionType)> {
        let name = self.name(register);
        let request = GetDocumentRequest { name, ..GetDocumentRequest::default() };
        let document = match self.client.clone().get_document(request).await {
            Ok(document) => document.into_inner(),
            Err(status) if status.code() == Code::NotFound => {
                return Ok((State::default(), ConditionType::Exists(false)));
            }
            Err(status) => bail!("a register: {status}"),
        };
        let number = |field: &str| match document.fields.get(field)?.value_type.as_ref()? {
            ValueType::IntegerValue(number) => u64::try_from(*number).ok(),
            _ => None,
        };
        let fields = number("value").zip(number("writes")).zip(number("fence"));
        let ((value, writes), fence) = fields.context("a register's three numbers")?;
        let updated = document.update_time.context("a document's version")?;
        Ok((State { value, writes, fence }, ConditionType::UpdateTime(updated)))
    }

    fn document(&self, register: &str, state: State) -> Result<Document> {
        let State { value, writes, fence } = state;
        let mut document = Document { name: self.name(register), ..Document::default() };
        for (field, number) in [("value", value), ("writes", writes), ("fence", fence)] {
            let value_type = Some(ValueType::IntegerValue(i64::try_from(number)?));
            document.fields.insert(field.to_owned(), Value { value_type });
        }
        Ok(document)
    }

    fn name(&self, register: &str) -> String {
        format!("{}/documents/registers/{register}", self.database)
    }
}

/// Another writer was faster, or the server says that this is possible.
fn is_conflict(code: Code) -> bool {
    matches!(code, Code::FailedPrecondition | Code::AlreadyExists | Code::NotFound | Code::Aborted)
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
