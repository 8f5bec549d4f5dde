//! A client that locks like the TypeScript library: `firestore/operations/*.ts`, in read-write transactions.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use syncguard_firestore::LockId;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::batch_get_documents_request::ConsistencySelector as ReadIn;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::batch_get_documents_response::Result as Found;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::run_query_request::{
    ConsistencySelector as QueryIn, QueryType,
};
use syncguard_firestore::gcloud_sdk::google::firestore::v1::structured_query::field_filter::Operator;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::structured_query::filter::FilterType;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::structured_query::{
    CollectionSelector, FieldFilter, FieldReference, Filter,
};
use syncguard_firestore::gcloud_sdk::google::firestore::v1::value::ValueType;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::write::Operation;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::{
    BatchGetDocumentsRequest, BeginTransactionRequest, RollbackRequest, RunQueryRequest,
    StructuredQuery, Value, Write,
};
use syncguard_firestore::gcloud_sdk::tonic::{Code, Status};

use crate::firestore::support::{Raw, document, fields, text};

/// The client of this module.
pub(crate) struct Transactional(pub(crate) Raw);

type Stored = Option<HashMap<String, ValueType>>;

impl Transactional {
    /// `runTransaction`: up to five attempts, as Node's SDK makes.
    async fn run<T>(
        &self,
        work: impl AsyncFn(Vec<u8>) -> Result<(T, Vec<Write>), Status>,
    ) -> Result<T, Status> {
        let mut last = Status::aborted("");
        for attempt in 0..5 {
            let request = BeginTransactionRequest {
                database: self.0.database.clone(),
                ..BeginTransactionRequest::default()
            };
            let begun = self.0.client.clone().begin_transaction(request).await?;
            let transaction = begun.into_inner().transaction;
            let done = match work(transaction.clone()).await {
                Ok((answer, writes)) => {
                    self.0.commit(writes, transaction.clone()).await.map(|()| answer)
                }
                Err(status) => Err(status),
            };
            match done {
                Ok(answer) => return Ok(answer),
                Err(status) => {
                    let database = self.0.database.clone();
                    let request =
                        RollbackRequest { database, transaction, ..RollbackRequest::default() };
                    let _ = self.0.client.clone().rollback(request).await;
                    if status.code() != Code::Aborted {
                        return Err(status);
                    }
                    last = status;
                }
            }
            tokio::time::sleep(Duration::from_millis(20 << attempt)).await;
        }
        Err(last)
    }

    async fn read(&self, path: &str, transaction: &[u8]) -> Result<Stored, Status> {
        let request = BatchGetDocumentsRequest {
            database: self.0.database.clone(),
            documents: vec![self.0.name(path)],
            consistency_selector: Some(ReadIn::Transaction(transaction.to_vec())),
            ..BatchGetDocumentsRequest::default()
        };
        let mut answers = self.0.client.clone().batch_get_documents(request).await?.into_inner();
        while let Some(answer) = answers.message().await? {
            if let Some(Found::Found(document)) = answer.result {
                return Ok(Some(fields(document)));
            }
        }
        Ok(None)
    }

    /// The fence, if the key was free.
    pub(crate) async fn acquire(
        &self,
        key: &str,
        id: LockId,
        ttl_ms: i64,
    ) -> Result<Option<u64>, Status> {
        self.run(async |transaction| {
            let lock = self.read(&format!("locks/{key}"), &transaction).await?;
            let counter = self.read(&format!("fence_counters/fence:{key}"), &transaction).await?;
            let now = now();
            if lock.is_some_and(|lock| integer(&lock["expiresAtMs"]) > now - 1000) {
                return Ok((None, Vec::new()));
            }
            let fence = counter.map_or(0, |counter| number(&counter["fence"])) + 1;
            let digits = text(&format!("{fence:015}"));
            let lock = [
                ("lockId", text(id.expose())),
                ("expiresAtMs", ValueType::IntegerValue(now + ttl_ms)),
                ("acquiredAtMs", ValueType::IntegerValue(now)),
                ("key", text(key)),
                ("fence", digits.clone()),
            ];
            let counter = [("fence", digits), ("keyDebug", text(key))];
            let put = |document| Write {
                operation: Some(Operation::Update(document)),
                ..Write::default()
            };
            let writes = vec![
                put(document(self.0.name(&format!("locks/{key}")), lock)),
                put(document(self.0.name(&format!("fence_counters/fence:{key}")), counter)),
            ];
            Ok((Some(fence), writes))
        })
        .await
    }

    /// Returns true if the lock existed and was live.
    pub(crate) async fn release(&self, id: LockId) -> Result<bool, Status> {
        self.run(async |transaction| {
            let filter = FieldFilter {
                field: Some(FieldReference { field_path: "lockId".to_owned() }),
                op: Operator::Equal.into(),
                value: Some(Value { value_type: Some(text(id.expose())) }),
            };
            let query = StructuredQuery {
                from: vec![CollectionSelector {
                    collection_id: "locks".to_owned(),
                    all_descendants: false,
                }],
                r#where: Some(Filter { filter_type: Some(FilterType::FieldFilter(filter)) }),
                ..StructuredQuery::default()
            };
            let request = RunQueryRequest {
                parent: format!("{}/documents", self.0.database),
                query_type: Some(QueryType::StructuredQuery(query)),
                consistency_selector: Some(QueryIn::Transaction(transaction)),
                ..RunQueryRequest::default()
            };
            let mut answers = self.0.client.clone().run_query(request).await?.into_inner();
            let mut found = None;
            while let Some(answer) = answers.message().await? {
                found = found.or(answer.document);
            }
            let Some(found) = found else { return Ok((false, Vec::new())) };
            let name = found.name.clone();
            if integer(&fields(found)["expiresAtMs"]) <= now() - 1000 {
                return Ok((false, Vec::new()));
            }
            let operation = Some(Operation::Delete(name));
            Ok((true, vec![Write { operation, ..Write::default() }]))
        })
        .await
    }
}

fn now() -> i64 {
    let since = SystemTime::UNIX_EPOCH.elapsed().expect("a time after 1970");
    i64::try_from(since.as_millis()).expect("a sensible time")
}

fn integer(value: &ValueType) -> i64 {
    let ValueType::IntegerValue(integer) = value else { panic!("{value:?}") };
    *integer
}

fn number(value: &ValueType) -> u64 {
    let ValueType::StringValue(digits) = value else { panic!("{value:?}") };
    digits.parse().expect("digits")
}
