//! Firestore's own client on the emulator, and the calls of a lock without anything around them.

use std::time::SystemTime;

use anyhow::{Context as _, Result, ensure};
use syncguard_firestore::gcloud_sdk::google::firestore::v1::batch_get_documents_response::Result as Found;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::firestore_client::FirestoreClient;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::precondition::ConditionType;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::value::ValueType;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::write::Operation;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::{
    BatchGetDocumentsRequest, CommitRequest, Document, Precondition, Value, Write,
};
use syncguard_firestore::gcloud_sdk::google_cloud_auth::credentials::{
    CacheableResource, Credentials, CredentialsProvider, EntityTag,
};
use syncguard_firestore::gcloud_sdk::google_cloud_auth::errors::CredentialsError;
use syncguard_firestore::gcloud_sdk::prost_types::Timestamp;
use syncguard_firestore::gcloud_sdk::tonic::codegen::http::{Extensions, HeaderValue, header};
use syncguard_firestore::gcloud_sdk::tonic::transport::Endpoint;
use syncguard_firestore::gcloud_sdk::{GoogleAuthHeaders, GoogleAuthMiddleware, HeaderMap};
use syncguard_firestore::{FirestoreBackend, FirestoreOptions};

const PROJECT: &str = "bench";

/// A client without the library, with a connection of its own.
#[derive(Clone)]
pub struct Raw {
    pub client: FirestoreClient<GoogleAuthMiddleware>,
    /// `projects/…/databases/…`
    pub database: String,
}

impl Raw {
    pub fn new(port: u16) -> Result<Self> {
        let database = format!("projects/{PROJECT}/databases/(default)");
        let channel = Endpoint::from_shared(format!("http://127.0.0.1:{port}"))?.connect_lazy();
        let headers = GoogleAuthHeaders::from(Credentials::from(Owner(EntityTag::new())));
        let service = GoogleAuthMiddleware::new(channel, headers, Some(database.clone()));
        let client = FirestoreClient::new(service.ok().context("a database's name")?);
        Ok(Self { client, database })
    }

    /// A backend over this client.
    pub fn backend(&self) -> Result<FirestoreBackend> {
        let options = FirestoreOptions::new().with_project(PROJECT);
        Ok(FirestoreBackend::from_client(self.client.clone(), options)?)
    }

    /// Java takes its time until it is as fast as it gets.
    pub async fn warm_up(&self) -> Result<()> {
        for _ in 0..500 {
            let written = self.take("warm").await?;
            self.give_back("warm", written).await?;
        }
        Ok(())
    }

    /// Takes a free lock as the backend does: a read and a commit. Returns the time of the write.
    pub async fn take(&self, key: &str) -> Result<Option<Timestamp>> {
        let names = self.names(key);
        let request = BatchGetDocumentsRequest {
            database: self.database.clone(),
            documents: names.to_vec(),
            ..BatchGetDocumentsRequest::default()
        };
        let mut answers = self.client.clone().batch_get_documents(request).await?.into_inner();
        let mut counter = None;
        while let Some(answer) = answers.message().await? {
            if let Some(Found::Found(document)) = answer.result {
                ensure!(document.name == names[1], "the lock is not free");
                counter = document.update_time;
            }
        }
        let condition = counter.map_or(ConditionType::Exists(false), ConditionType::UpdateTime);
        // Changes each time, as a counter does.
        let fence = SystemTime::UNIX_EPOCH.elapsed()?.as_micros() % 900_000_000_000;
        let [lock, counter] = self.documents(key, u64::try_from(fence)?);
        let writes = vec![
            write(Operation::Update(lock), ConditionType::Exists(false)),
            write(Operation::Update(counter), condition),
        ];
        self.commit(writes).await
    }

    /// Gives a lock back: a commit.
    pub async fn give_back(&self, key: &str, written: Option<Timestamp>) -> Result<()> {
        let [lock_name, _] = self.names(key);
        let condition = written.map_or(ConditionType::Exists(true), ConditionType::UpdateTime);
        self.commit(vec![write(Operation::Delete(lock_name), condition)]).await.map(drop)
    }

    /// Returns the time of the first write.
    async fn commit(&self, writes: Vec<Write>) -> Result<Option<Timestamp>> {
        let database = self.database.clone();
        let request = CommitRequest { database, writes, ..CommitRequest::default() };
        let answer = self.client.clone().commit(request).await?.into_inner();
        Ok(answer.write_results.first().and_then(|result| result.update_time))
    }

    /// The documents of the lock, which does not expire soon, and of the counter.
    #[must_use]
    pub fn documents(&self, key: &str, fence: u64) -> [Document; 2] {
        let [lock_name, counter_name] = self.names(key);
        let text = |text: &str| ValueType::StringValue(text.to_owned());
        let fence = text(&format!("{fence:015}"));
        let lock = vec![
            ("lockId", text("apesXHOdi5wMq4V2M0-VRg")),
            ("expiresAtMs", ValueType::IntegerValue(9_000_000_000_000)),
            ("acquiredAtMs", ValueType::IntegerValue(1_000_000_000_000)),
            ("key", text(key)),
            ("fence", fence.clone()),
        ];
        let counter = vec![("fence", fence), ("keyDebug", text(key))];
        let value = |(field, of): (&str, _)| (field.to_owned(), Value { value_type: Some(of) });
        [(lock_name, lock), (counter_name, counter)].map(|(name, fields)| {
            let fields = fields.into_iter().map(value).collect();
            Document { name, fields, ..Document::default() }
        })
    }

    /// The names of the lock's document and of the counter's.
    #[must_use]
    pub fn names(&self, key: &str) -> [String; 2] {
        [format!("locks/{key}"), format!("fence_counters/fence:{key}")]
            .map(|path| format!("{}/documents/{path}", self.database))
    }
}

fn write(operation: Operation, condition: ConditionType) -> Write {
    Write {
        operation: Some(operation),
        current_document: Some(Precondition { condition_type: Some(condition) }),
        ..Write::default()
    }
}

/// The source of the token, which the emulator takes for the administrator's.
#[derive(Debug)]
struct Owner(EntityTag);

impl CredentialsProvider for Owner {
    async fn headers(
        &self,
        _: Extensions,
    ) -> Result<CacheableResource<HeaderMap>, CredentialsError> {
        let token = HeaderValue::from_static("Bearer owner");
        let data = HeaderMap::from_iter([(header::AUTHORIZATION, token)]);
        Ok(CacheableResource::New { entity_tag: self.0.clone(), data })
    }

    async fn universe_domain(&self) -> Option<String> {
        None
    }
}
