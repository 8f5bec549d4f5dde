//! The emulator, backends on it, and a client of Firestore without the library.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use syncguard_firestore::gcloud_sdk::GoogleAuthMiddleware;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::firestore_client::FirestoreClient;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::value::ValueType;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::write::Operation;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::{
    CommitRequest, Document, GetDocumentRequest, ListDocumentsRequest, Value, Write,
};
use syncguard_firestore::gcloud_sdk::tonic::{Code, Status};
use syncguard_firestore::{
    AcquireRequest, AcquireResult, Acquired, FirestoreBackend, FirestoreOptions, LockBackend as _,
};
use syncguard_test_services::firestore::FirestoreEmulator;
use syncguard_tests::register::emulator_client;

/// An emulator that many tests share. It keeps what it was given, so projects must not clash.
pub(crate) fn shared() -> &'static FirestoreEmulator {
    static EMULATOR: OnceLock<FirestoreEmulator> = OnceLock::new();
    EMULATOR.get_or_init(|| FirestoreEmulator::start().expect("a Firestore emulator"))
}

/// For tests that count how much is done in a time: one of them at once.
pub(crate) async fn alone() -> impl Drop {
    static BUSY: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    BUSY.lock().await
}

/// A database that nothing else in this process uses.
pub(crate) fn fresh() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("firestore://test-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Options for an emulator at this address.
pub(crate) fn options_at(port: u16) -> FirestoreOptions {
    FirestoreOptions::new().with_emulator(format!("127.0.0.1:{port}"))
}

/// Options for the shared emulator.
pub(crate) fn options() -> FirestoreOptions {
    options_at(shared().port())
}

pub(crate) async fn backend_with(url: &str, options: FirestoreOptions) -> FirestoreBackend {
    FirestoreBackend::connect_with(url, options).await.expect("a backend")
}

pub(crate) async fn backend(url: &str) -> FirestoreBackend {
    backend_with(url, options()).await
}

pub(crate) fn request(key: &str, ttl_ms: u64) -> AcquireRequest {
    AcquireRequest::new(key, Duration::from_millis(ttl_ms)).expect("a request")
}

/// A lock that must be free.
pub(crate) async fn take(backend: &FirestoreBackend, key: &str, ttl_ms: u64) -> Acquired {
    let result = backend.acquire(request(key, ttl_ms)).await.expect("an answer");
    result.acquired().expect("a free lock")
}

pub(crate) async fn is_free(backend: &FirestoreBackend, key: &str) -> bool {
    matches!(backend.acquire(request(key, 1)).await, Ok(AcquireResult::Acquired(_)))
}

/// Firestore past the library.
#[derive(Clone)]
pub(crate) struct Raw {
    pub(crate) client: FirestoreClient<GoogleAuthMiddleware>,
    /// `projects/…/databases/…`
    pub(crate) database: String,
    calls: Arc<AtomicU64>,
}

impl Raw {
    pub(crate) fn new(url: &str) -> Self {
        Self::at(url, shared().port())
    }

    pub(crate) fn at(url: &str, port: u16) -> Self {
        Self::build(url, port, "owner")
    }

    /// With another token than the administrator's.
    pub(crate) fn with_token(url: &str, token: &str) -> Self {
        Self::build(url, shared().port(), token)
    }

    fn build(url: &str, port: u16, token: &str) -> Self {
        let project = url.strip_prefix("firestore://").expect("a URL");
        let database = format!("projects/{project}/databases/(default)");
        let calls = Arc::default();
        let host_port = format!("127.0.0.1:{port}");
        let client = emulator_client(&host_port, &database, token, Arc::clone(&calls));
        Self { client: client.expect("a client"), database, calls }
    }

    /// A backend over this client: its calls count here.
    pub(crate) fn backend(&self, url: &str, options: &FirestoreOptions) -> FirestoreBackend {
        FirestoreBackend::from_client(self.client.clone(), url, options.clone()).expect("a backend")
    }

    /// The number of calls since it was asked last.
    pub(crate) fn calls(&self) -> u64 {
        self.calls.swap(0, Ordering::SeqCst)
    }

    pub(crate) fn name(&self, path: &str) -> String {
        format!("{}/documents/{path}", self.database)
    }

    /// Writes a document, whatever was there.
    pub(crate) async fn set<const N: usize>(&self, path: &str, fields: [(&str, ValueType); N]) {
        let write = Write {
            operation: Some(Operation::Update(document(self.name(path), fields))),
            ..Write::default()
        };
        self.commit(vec![write], Vec::new()).await.expect("a commit");
    }

    pub(crate) async fn commit(
        &self,
        writes: Vec<Write>,
        transaction: Vec<u8>,
    ) -> Result<(), Status> {
        let database = self.database.clone();
        let request = CommitRequest { database, writes, transaction, ..CommitRequest::default() };
        self.client.clone().commit(request).await.map(drop)
    }

    pub(crate) async fn get(&self, path: &str) -> Option<HashMap<String, ValueType>> {
        let name = self.name(path);
        let request = GetDocumentRequest { name, ..GetDocumentRequest::default() };
        match self.client.clone().get_document(request).await {
            Ok(document) => Some(fields(document.into_inner())),
            Err(status) if status.code() == Code::NotFound => None,
            Err(status) => panic!("{status}"),
        }
    }

    /// The ids of a collection's documents.
    pub(crate) async fn ids(&self, collection: &str) -> Vec<String> {
        let request = ListDocumentsRequest {
            parent: format!("{}/documents", self.database),
            collection_id: collection.to_owned(),
            page_size: 1000,
            ..ListDocumentsRequest::default()
        };
        let answer = self.client.clone().list_documents(request).await.expect("documents");
        let documents = answer.into_inner().documents.into_iter();
        let mut ids: Vec<String> = documents
            .map(|document| document.name.rsplit('/').next().unwrap().to_owned())
            .collect();
        ids.sort();
        ids
    }
}

pub(crate) fn document<const N: usize>(name: String, fields: [(&str, ValueType); N]) -> Document {
    let value = |value| Value { value_type: Some(value) };
    let fields = fields.into_iter().map(|(field, of)| (field.to_owned(), value(of))).collect();
    Document { name, fields, ..Document::default() }
}

pub(crate) fn fields(document: Document) -> HashMap<String, ValueType> {
    let fields = document.fields.into_iter();
    fields.map(|(field, value)| (field, value.value_type.expect("a value"))).collect()
}

pub(crate) fn text(text: &str) -> ValueType {
    ValueType::StringValue(text.to_owned())
}
