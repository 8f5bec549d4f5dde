//! The calls that a lock needs, as the backend makes them: a commit to give it back; a read and a commit to take it.

use std::time::{Duration, SystemTime};

use anyhow::{Result, ensure};
use syncguard_firestore::gcloud_sdk::google::firestore::v1::batch_get_documents_response::Result as Found;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::precondition::ConditionType;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::value::ValueType;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::write::Operation;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::{
    BatchGetDocumentsRequest, CommitRequest, Precondition, Write,
};
use syncguard_firestore::gcloud_sdk::prost_types::Timestamp;

use super::WORK;
use crate::clock;
use crate::figures::Sorted;
use crate::support::{Raw, document, text};

/// Times from the beginning of a release to the grant that follows, in one process.
pub(crate) async fn measure(url: &str, port: u16, time: Duration) -> Result<Sorted> {
    let party = Party(Raw::at(url, port));
    let mut times = Vec::new();
    let end = clock::now() + u64::try_from(time.as_nanos())?;
    let mut lock = party.acquire().await?;
    while clock::now() < end {
        clock::exactly(WORK).await?;
        let begun = clock::now();
        party.release(lock).await?;
        lock = party.acquire().await?;
        times.push(clock::now() - begun);
    }
    party.release(lock).await?;
    Ok(Sorted::new(times))
}

struct Party(Raw);

impl Party {
    fn names(&self) -> [String; 2] {
        ["locks/floor", "fence_counters/floor"].map(|path| self.0.name(path))
    }

    /// When the lock was written.
    async fn acquire(&self) -> Result<Option<Timestamp>> {
        let [lock_name, counter_name] = self.names();
        let request = BatchGetDocumentsRequest {
            database: self.0.database.clone(),
            documents: self.names().to_vec(),
            ..BatchGetDocumentsRequest::default()
        };
        let mut client = self.0.client.clone();
        let mut answers = client.batch_get_documents(request).await?.into_inner();
        let mut counter = None;
        while let Some(answer) = answers.message().await? {
            if let Some(Found::Found(document)) = answer.result {
                ensure!(document.name == counter_name, "the lock is not free");
                counter = document.update_time;
            }
        }
        let condition = counter.map_or(ConditionType::Exists(false), ConditionType::UpdateTime);
        let lock = document(
            lock_name,
            [
                ("lockId", text("apesXHOdi5wMq4V2M0-VRg")),
                ("expiresAtMs", ValueType::IntegerValue(9_000_000_000_000)),
                ("acquiredAtMs", ValueType::IntegerValue(1_000_000_000_000)),
                ("key", text("floor")),
                ("fence", text("000000000000001")),
            ],
        );
        // Changes each time, as a counter does.
        let digits =
            format!("{:015}", SystemTime::UNIX_EPOCH.elapsed()?.as_micros() % 900_000_000_000);
        let counter =
            document(counter_name, [("fence", text(&digits)), ("keyDebug", text("floor"))]);
        let writes = vec![
            write(Operation::Update(lock), ConditionType::Exists(false)),
            write(Operation::Update(counter), condition),
        ];
        self.commit(writes).await
    }

    async fn release(&self, written: Option<Timestamp>) -> Result<()> {
        let [lock_name, _] = self.names();
        let condition = written.map_or(ConditionType::Exists(true), ConditionType::UpdateTime);
        self.commit(vec![write(Operation::Delete(lock_name), condition)]).await.map(drop)
    }

    /// When the first document was written.
    async fn commit(&self, writes: Vec<Write>) -> Result<Option<Timestamp>> {
        let database = self.0.database.clone();
        let request = CommitRequest { database, writes, ..CommitRequest::default() };
        let answer = self.0.client.clone().commit(request).await?.into_inner();
        Ok(answer.write_results.first().and_then(|result| result.update_time))
    }
}

pub(crate) fn write(operation: Operation, condition: ConditionType) -> Write {
    Write {
        operation: Some(operation),
        current_document: Some(Precondition { condition_type: Some(condition) }),
        ..Write::default()
    }
}
