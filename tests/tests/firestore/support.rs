//! The emulator, backends on it, and a client of Firestore without the library.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use syncguard_firestore::contract::{AcquireRequest, Acquired, LookupRequest, ReleaseRequest};
use syncguard_firestore::gcloud_sdk::GoogleAuthMiddleware;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::firestore_client::FirestoreClient;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::value::ValueType;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::write::Operation;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::{
    CommitRequest, Document, GetDocumentRequest, ListDocumentsRequest, Value, Write,
};
use syncguard_firestore::gcloud_sdk::tonic::{Code, Status};
use syncguard_firestore::{FirestoreBackend, FirestoreOptions, LockBackend as _};
use syncguard_test_services::firestore::FirestoreEmulator;
use syncguard_tests::emulator::emulator_client;

/// An emulator that many tests share. It keeps its data, so projects must not clash.
pub(crate) fn shared() -> &'static FirestoreEmulator {
    static EMULATOR: OnceLock<FirestoreEmulator> = OnceLock::new();
    EMULATOR.get_or_init(|| {
        let emulator = FirestoreEmulator::start().expect("a Firestore emulator");
        // On a thread of its own, because this is called from within runtimes.
        let port = emulator.port();
        let warming = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(warm_up(port));
        });
        warming.join().expect("a warm emulator");
        emulator
    })
}

/// Java's first answers take seconds on a busy machine, and no test is about those.
pub(crate) async fn warm_up(port: u16) {
    let minute = Duration::from_secs(60);
    let patient = options_at(port).with_operation_timeout(minute).with_request_timeout(minute);
    for remembered in [0, 10] {
        let backend =
            backend_with("firestore://warm", patient.clone().with_remembered_locks(remembered));
        let backend = backend.await;
        for _ in 0..20 {
            let lock = take(&backend, "k", 60_000).await;
            let found = backend.lookup(LookupRequest::by_lock_id(lock.lock_id)).await;
            assert!(found.expect("an answer").is_some());
            let released = backend.release(ReleaseRequest::new(lock.lock_id)).await;
            assert!(released.expect("an answer").is_released());
        }
    }
}

/// A database that nothing else in this process uses.
pub(crate) fn fresh() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("firestore://test-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Options for an emulator at this address, patient with a busy machine.
pub(crate) fn options_at(port: u16) -> FirestoreOptions {
    FirestoreOptions::new()
        .with_emulator(format!("127.0.0.1:{port}"))
        .with_request_timeout(Duration::from_secs(20))
        .with_operation_timeout(Duration::from_secs(40))
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

/// Takes a lock that must be free.
pub(crate) async fn take(backend: &FirestoreBackend, key: &str, ttl_ms: u64) -> Acquired {
    let result = backend.acquire(request(key, ttl_ms)).await.expect("an answer");
    result.acquired().expect("a free lock")
}

/// A client of Firestore without the library.
#[derive(Clone)]
pub(crate) struct Raw {
    client: FirestoreClient<GoogleAuthMiddleware>,
    /// `projects/…/databases/…`
    database: String,
    calls: Arc<AtomicU64>,
}

impl Raw {
    pub(crate) fn new(url: &str) -> Self {
        Self::at(url, shared().port())
    }

    pub(crate) fn at(url: &str, port: u16) -> Self {
        Self::build(url, port, Some("owner"))
    }

    /// A client with a token other than the administrator's.
    #[allow(dead_code, reason = "the canary uses it, which shares this file")]
    pub(crate) fn with_token(url: &str, token: &str) -> Self {
        Self::build(url, shared().port(), Some(token))
    }

    /// A client that asks for credentials and never gets any.
    pub(crate) fn without_credentials(url: &str) -> Self {
        Self::build(url, shared().port(), None)
    }

    fn build(url: &str, port: u16, token: Option<&str>) -> Self {
        let project = url.strip_prefix("firestore://").expect("a URL");
        let database = format!("projects/{project}/databases/(default)");
        let calls = Arc::default();
        let host_port = format!("127.0.0.1:{port}");
        let client = emulator_client(&host_port, &database, token, Arc::clone(&calls));
        Self { client: client.expect("a client"), database, calls }
    }

    /// A backend over this client, whose calls count here.
    pub(crate) fn backend(&self, url: &str, options: &FirestoreOptions) -> FirestoreBackend {
        let project = url.strip_prefix("firestore://").expect("a URL");
        let options = options.clone().with_project(project);
        FirestoreBackend::from_client(self.client.clone(), options).expect("a backend")
    }

    /// The number of calls since the last query.
    pub(crate) fn calls(&self) -> u64 {
        self.calls.swap(0, Ordering::SeqCst)
    }

    fn name(&self, path: &str) -> String {
        format!("{}/documents/{path}", self.database)
    }

    /// Writes a document without a precondition.
    pub(crate) async fn set(
        &self,
        path: &str,
        fields: impl IntoIterator<Item = (impl Into<String>, ValueType)>,
    ) {
        let value = |value| Value { value_type: Some(value) };
        let fields = fields.into_iter().map(|(field, of)| (field.into(), value(of))).collect();
        let document = Document { name: self.name(path), fields, ..Document::default() };
        self.commit(Operation::Update(document)).await.expect("a commit");
    }

    /// Deletes a document without a precondition. The emulator may answer with `Cancelled`: see the tests of signals.
    pub(crate) async fn delete(&self, path: &str) {
        while let Err(status) = self.commit(Operation::Delete(self.name(path))).await {
            assert_eq!(status.code(), Code::Cancelled, "{status}");
        }
    }

    async fn commit(&self, write: Operation) -> Result<(), Status> {
        let writes = vec![Write { operation: Some(write), ..Write::default() }];
        let database = self.database.clone();
        let request = CommitRequest { database, writes, ..CommitRequest::default() };
        self.client.clone().commit(request).await.map(drop)
    }

    pub(crate) async fn get(&self, path: &str) -> Option<HashMap<String, ValueType>> {
        let fields = self.document(path).await?.fields.into_iter();
        Some(fields.map(|(field, value)| (field, value.value_type.expect("a value"))).collect())
    }

    async fn document(&self, path: &str) -> Option<Document> {
        let name = self.name(path);
        let request = GetDocumentRequest { name, ..GetDocumentRequest::default() };
        match self.client.clone().get_document(request).await {
            Ok(document) => Some(document.into_inner()),
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

pub(crate) fn text(text: &str) -> ValueType {
    ValueType::StringValue(text.to_owned())
}
