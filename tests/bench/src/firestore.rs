//! Firestore's own client on the emulator, and the calls of a lock without anything around them.

use std::time::SystemTime;

use anyhow::{Result, ensure};
use syncguard_firestore::gcloud_sdk::google::firestore::v1::batch_get_documents_request::ConsistencySelector as ReadIn;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::batch_get_documents_response::Result as Found;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::firestore_client::FirestoreClient;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::precondition::ConditionType;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::value::ValueType;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::write::Operation;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::{
    BatchGetDocumentsRequest, CommitRequest, Document, Precondition, Value, Write,
};
use syncguard_firestore::gcloud_sdk::prost_types::Timestamp;
use syncguard_firestore::gcloud_sdk::tonic::metadata::MetadataValue;
use syncguard_firestore::gcloud_sdk::tonic::service::interceptor::InterceptedService;
use syncguard_firestore::gcloud_sdk::tonic::transport::{Channel, Endpoint};
use syncguard_firestore::gcloud_sdk::tonic::{Request, Status};

const PROJECT: &str = "bench";

/// A client without the library, with a connection of its own.
#[derive(Clone)]
pub struct Raw {
    pub client: FirestoreClient<InterceptedService<Channel, Tag>>,
    /// `projects/…/databases/…`
    pub database: String,
    port: u16,
}

/// Adds what each request has.
type Tag = fn(Request<()>) -> Result<Request<()>, Status>;

impl Raw {
    pub fn new(port: u16) -> Result<Self> {
        let database = format!("projects/{PROJECT}/databases/(default)");
        let channel = Endpoint::from_shared(format!("http://127.0.0.1:{port}"))?.connect_lazy();
        // The emulator takes this token for the administrator's.
        let owner: Tag = |mut request| {
            let token = MetadataValue::from_static("Bearer owner");
            request.metadata_mut().insert("authorization", token);
            Ok(request)
        };
        Ok(Self { client: FirestoreClient::with_interceptor(channel, owner), database, port })
    }

    /// The URL of the same database.
    pub fn url(&self) -> String {
        format!("firestore://{PROJECT}?emulator=127.0.0.1:{}", self.port)
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
        let found = self.read(&names, None).await?;
        ensure!(found.iter().all(|document| document.name == names[1]), "the lock is not free");
        let counter = found.into_iter().find_map(|counter| counter.update_time);
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

    /// The documents that exist, of these.
    pub async fn read(
        &self,
        names: &[String],
        transaction: Option<Vec<u8>>,
    ) -> Result<Vec<Document>, Status> {
        let request = BatchGetDocumentsRequest {
            database: self.database.clone(),
            documents: names.to_vec(),
            consistency_selector: transaction.map(ReadIn::Transaction),
            ..BatchGetDocumentsRequest::default()
        };
        let mut answers = self.client.clone().batch_get_documents(request).await?.into_inner();
        let mut found = Vec::new();
        while let Some(answer) = answers.message().await? {
            if let Some(Found::Found(document)) = answer.result {
                found.push(document);
            }
        }
        Ok(found)
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
