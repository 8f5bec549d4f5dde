//! The floor: the requests of the backend, including its time limits, without reading the answers.

use anyhow::Result;
use syncguard_firestore::FirestoreOptions;
use syncguard_firestore::gcloud_sdk::RequestTimeouts;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::batch_get_documents_response::Result as Found;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::precondition::ConditionType;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::value::ValueType;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::write::Operation;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::{
    BatchGetDocumentsRequest, CommitRequest, CommitResponse, Precondition, Write,
};
use syncguard_firestore::gcloud_sdk::prost_types::Timestamp;
use syncguard_firestore::gcloud_sdk::tonic::{Request, Status};

use crate::support::{Raw, document, text};

pub(crate) struct Bare(pub(crate) Raw);

impl Bare {
    /// Reads both documents, writes both, deletes the lock. `false` if the lock existed, or another client was
    /// faster.
    pub(crate) async fn cycle(&self, key: &str) -> Result<bool> {
        let names = [format!("locks/{key}"), format!("fence_counters/fence:{key}")]
            .map(|path| self.0.name(&path));
        let [lock, counter] = self.read(&names).await?;
        if lock.is_some() {
            return Ok(false);
        }
        let [lock_name, counter_name] = names;
        let fence = || text("000000000000001");
        let lock = document(
            lock_name.clone(),
            [
                ("lockId", text("apesXHOdi5wMq4V2M0-VRg")),
                ("expiresAtMs", ValueType::IntegerValue(9_000_000_000_000)),
                ("acquiredAtMs", ValueType::IntegerValue(1_000_000_000_000)),
                ("key", text(key)),
                ("fence", fence()),
            ],
        );
        let condition = counter.map_or(ConditionType::Exists(false), ConditionType::UpdateTime);
        // Changes each time, as a counter does.
        let digits = format!("{:015}", rand());
        let fences = document(counter_name, [("fence", text(&digits)), ("keyDebug", text(key))]);
        let writes = vec![
            write(Operation::Update(lock), ConditionType::Exists(false)),
            write(Operation::Update(fences), condition),
        ];
        let Ok(answer) = self.commit(writes).await else { return Ok(false) };
        let updated = answer.write_results[0].update_time.expect("an update time");
        let condition = ConditionType::UpdateTime(updated);
        self.commit(vec![write(Operation::Delete(lock_name), condition)]).await?;
        Ok(true)
    }

    async fn read(&self, names: &[String; 2]) -> Result<[Option<Timestamp>; 2], Status> {
        let request = BatchGetDocumentsRequest {
            database: self.0.database.clone(),
            documents: names.to_vec(),
            ..BatchGetDocumentsRequest::default()
        };
        let mut found = [None, None];
        let mut client = self.0.client.clone();
        let mut answers = client.batch_get_documents(limited(request)).await?.into_inner();
        while let Some(answer) = answers.message().await? {
            if let Some(Found::Found(document)) = answer.result {
                found[usize::from(document.name == names[1])] = document.update_time;
            }
        }
        Ok(found)
    }

    async fn commit(&self, writes: Vec<Write>) -> Result<CommitResponse, Status> {
        let database = self.0.database.clone();
        let request = CommitRequest { database, writes, ..CommitRequest::default() };
        self.0.client.clone().commit(limited(request)).await.map(|answer| answer.into_inner())
    }
}

fn limited<M>(message: M) -> Request<M> {
    let limit = RequestTimeouts::new().with_total(FirestoreOptions::DEFAULT_REQUEST_TIMEOUT);
    let mut request = Request::new(message);
    request.extensions_mut().insert(limit);
    request
}

fn write(operation: Operation, condition: ConditionType) -> Write {
    Write {
        operation: Some(operation),
        current_document: Some(Precondition { condition_type: Some(condition) }),
        ..Write::default()
    }
}

fn rand() -> u128 {
    std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_micros() % 1_000_000_000)
}
