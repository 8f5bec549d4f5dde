//! The usual way: read-write transactions.

use std::time::Duration;

use anyhow::{Result, ensure};
use syncguard_bench::firestore::Raw;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::value::ValueType;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::write::Operation;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::{
    BeginTransactionRequest, CommitRequest, RollbackRequest, Write,
};
use syncguard_firestore::gcloud_sdk::tonic::{Code, Status};

#[derive(Clone)]
pub(crate) struct Transactions(pub(crate) Raw);

impl Transactions {
    pub(crate) async fn cycle(&self, key: &str) -> Result<()> {
        self.run(key, true).await?;
        self.run(key, false).await
    }

    /// Takes a lock, or gives it back, in one transaction after the other until one succeeds.
    async fn run(&self, key: &str, takes: bool) -> Result<()> {
        let (database, mut client) = (self.0.database.clone(), self.0.client.clone());
        for attempt in 0..50 {
            let begin =
                BeginTransactionRequest { database: database.clone(), ..Default::default() };
            let transaction = client.begin_transaction(begin).await?.into_inner().transaction;
            let done = self.attempt(key, takes, transaction.clone()).await;
            let Err(status) = done else { return Ok(()) };
            let database = database.clone();
            let roll_back = RollbackRequest { database, transaction, ..Default::default() };
            let _ = client.rollback(roll_back).await;
            ensure!(status.code() == Code::Aborted && attempt < 49, status);
            tokio::time::sleep(Duration::from_millis(20 << attempt.min(4))).await;
        }
        Ok(())
    }

    async fn attempt(&self, key: &str, takes: bool, transaction: Vec<u8>) -> Result<(), Status> {
        let [lock, counter] = self.0.names(key).map(|name| [name]);
        let within = || Some(transaction.clone());
        if self.0.read(&lock, within()).await?.is_empty() != takes {
            return Err(Status::failed_precondition("another has the lock"));
        }
        let operations = if takes {
            let counter = self.0.read(&counter, within()).await?.pop();
            let fence = counter.and_then(|mut counter| counter.fields.remove("fence")?.value_type);
            let last = match fence {
                Some(ValueType::StringValue(digits)) => digits.parse().unwrap_or(0),
                _ => 0,
            };
            self.0.documents(key, last + 1).map(Operation::Update).to_vec()
        } else {
            lock.map(Operation::Delete).to_vec()
        };
        let write = |operation| Write { operation: Some(operation), ..Write::default() };
        let writes = operations.into_iter().map(write).collect();
        let database = self.0.database.clone();
        let commit = CommitRequest { database, writes, transaction, ..Default::default() };
        self.0.client.clone().commit(commit).await.map(drop)
    }
}
