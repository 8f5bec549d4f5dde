//! The database: documents that are read together, commits with preconditions, and targets of listeners.

use std::collections::BTreeMap;

use syncguard_firestore::gcloud_sdk::google::firestore::v1::batch_get_documents_response::Result as Found;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::listen_request::TargetChange as Change;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::listen_response::ResponseType;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::precondition::ConditionType;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::run_query_request::QueryType;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::structured_query::filter::FilterType;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::target::TargetType;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::target_change::TargetChangeType;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::value::ValueType;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::write::Operation;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::{
    BatchGetDocumentsRequest, BatchGetDocumentsResponse, CommitRequest, CommitResponse, Document,
    DocumentChange, DocumentDelete, ListenRequest, ListenResponse, RunQueryRequest,
    RunQueryResponse, TargetChange, Write, WriteResult,
};
use syncguard_firestore::gcloud_sdk::prost_types::Timestamp;
use syncguard_firestore::gcloud_sdk::tonic::Status;

use crate::listening::{Heard, Told};

/// A call.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "it lives for a moment")]
pub(crate) enum Call {
    Read(BatchGetDocumentsRequest),
    Query(RunQueryRequest),
    Commit(CommitRequest),
}

/// Its answers.
#[derive(Debug)]
pub(crate) enum Answer {
    Read(Vec<BatchGetDocumentsResponse>),
    Query(Vec<RunQueryResponse>),
    Commit(CommitResponse),
}

pub(crate) type Reply = Result<Answer, Status>;

#[derive(Default)]
pub(crate) struct Documents {
    all: BTreeMap<String, Document>,
    /// The documents that streams listen to, by stream and target.
    targets: BTreeMap<u64, BTreeMap<i32, String>>,
    /// The time of the last commit, in microseconds. The next commit has a later time.
    last: u64,
    commits: u64,
    /// True while it refuses commits.
    pub(crate) is_refusing: bool,
}

/// One of this many commits is refused because others are in progress, as the server may do.
const ABORTED: u64 = 211;

/// How long an expired lock counts as live, in milliseconds.
const TOLERANCE: i64 = 1000;

#[expect(clippy::unnecessary_wraps, reason = "as messages have it")]
fn time(micros: u64) -> Option<Timestamp> {
    let seconds = i64::try_from(micros / 1_000_000).expect("63 bits");
    let nanos = i32::try_from(micros % 1_000_000 * 1000).expect("less than a second");
    Some(Timestamp { seconds, nanos })
}

impl Documents {
    /// Carries out a call. `now` is in microseconds since 1970.
    pub(crate) fn carry_out(&mut self, now: u64, call: &Call) -> (Reply, Heard) {
        match call {
            Call::Read(asked) => (Ok(Answer::Read(self.read(now, asked))), Heard::new()),
            Call::Query(asked) => (Ok(Answer::Query(self.query(now, asked))), Heard::new()),
            Call::Commit(asked) => match self.commit(now, asked) {
                Ok((answer, heard)) => (Ok(Answer::Commit(answer)), heard),
                Err(status) => (Err(status), Heard::new()),
            },
        }
    }

    fn read(&self, now: u64, asked: &BatchGetDocumentsRequest) -> Vec<BatchGetDocumentsResponse> {
        let answer = |name: &String| {
            let found = self.all.get(name).cloned();
            let found = found.map_or_else(|| Found::Missing(name.clone()), Found::Found);
            let (read_time, result) = (time(now), Some(found));
            BatchGetDocumentsResponse { read_time, result, ..Default::default() }
        };
        asked.documents.iter().map(answer).collect()
    }

    /// The documents of a collection whose field has a value.
    fn query(&self, now: u64, asked: &RunQueryRequest) -> Vec<RunQueryResponse> {
        let Some(QueryType::StructuredQuery(query)) = &asked.query_type else {
            panic!("no query");
        };
        let filter = query.r#where.as_ref().and_then(|filter| filter.filter_type.as_ref());
        let Some(FilterType::FieldFilter(filter)) = filter else { panic!("another query") };
        let field = &filter.field.as_ref().expect("a field").field_path;
        let folder = format!("{}/{}/", asked.parent, query.from[0].collection_id);
        let within = self.all.range(folder.clone()..);
        let within = within.take_while(|(name, _)| name.starts_with(&folder));
        let matching =
            within.filter(|(_, document)| document.fields.get(field) == filter.value.as_ref());
        let answer = |document: Option<Document>| RunQueryResponse {
            document,
            read_time: time(now),
            ..Default::default()
        };
        let mut answers: Vec<_> =
            matching.map(|(_, document)| answer(Some(document.clone()))).collect();
        if answers.is_empty() {
            answers.push(answer(None));
        }
        answers
    }

    fn commit(
        &mut self,
        now: u64,
        asked: &CommitRequest,
    ) -> Result<(CommitResponse, Heard), Status> {
        self.commits += 1;
        if self.is_refusing {
            return Err(Status::resource_exhausted("Quota exceeded."));
        }
        if self.commits.is_multiple_of(ABORTED) {
            return Err(Status::aborted("Too much contention on these documents."));
        }
        asked.writes.iter().try_for_each(|write| self.may(write))?;
        self.last = now.max(self.last + 1);
        let updated = time(self.last);
        let mut heard = Heard::new();
        let mut write_results = Vec::new();
        for write in &asked.writes {
            let name = self.write(write);
            write_results.push(WriteResult { update_time: updated, ..Default::default() });
            heard.extend(self.heard(&name));
        }
        Ok((CommitResponse { write_results, commit_time: updated }, heard))
    }

    /// Whether the precondition of a write holds.
    fn may(&self, write: &Write) -> Result<(), Status> {
        let stored = self.all.get(name_of(write));
        let condition = write.current_document.as_ref();
        match condition.and_then(|condition| condition.condition_type.as_ref()) {
            Some(ConditionType::Exists(false)) if stored.is_some() => {
                Err(Status::already_exists("Document already exists."))
            }
            Some(ConditionType::Exists(true) | ConditionType::UpdateTime(_))
                if stored.is_none() =>
            {
                Err(Status::not_found("No document to update."))
            }
            Some(ConditionType::UpdateTime(seen))
                if stored.and_then(|stored| stored.update_time.as_ref()) != Some(seen) =>
            {
                Err(Status::failed_precondition("The document has been changed."))
            }
            _ => Ok(()),
        }
    }

    /// Returns the name of the document. A write that changes nothing leaves its time as it was.
    fn write(&mut self, write: &Write) -> String {
        let name = name_of(write).to_owned();
        let Some(Operation::Update(written)) = &write.operation else {
            self.all.remove(&name);
            return name;
        };
        let updated = time(self.last);
        let stored = self.all.entry(name.clone()).or_insert_with(|| Document {
            name: name.clone(),
            create_time: updated,
            ..Default::default()
        });
        let mut fields = written.fields.clone();
        if let Some(mask) = &write.update_mask {
            fields.retain(|field, _| mask.field_paths.contains(field));
            let mut all = stored.fields.clone();
            all.extend(fields);
            fields = all;
        }
        if stored.fields != fields || stored.update_time.is_none() {
            stored.fields = fields;
            stored.update_time = updated;
        }
        name
    }

    /// What the streams hear that listen to this document.
    fn heard(&self, name: &str) -> Heard {
        let mut heard = Heard::new();
        for (stream, targets) in &self.targets {
            for (target, _) in targets.iter().filter(|(_, of)| *of == name) {
                heard.push((*stream, self.state(name, *target)));
            }
        }
        heard
    }

    fn state(&self, name: &str, target: i32) -> Told {
        let response = match self.all.get(name) {
            Some(document) => ResponseType::DocumentChange(DocumentChange {
                document: Some(document.clone()),
                target_ids: vec![target],
                ..Default::default()
            }),
            None => ResponseType::DocumentDelete(DocumentDelete {
                document: name.to_owned(),
                removed_target_ids: vec![target],
                ..Default::default()
            }),
        };
        Told::Firestore(ListenResponse { response_type: Some(response) })
    }

    /// A stream adds or removes a target.
    pub(crate) fn listens(&mut self, stream: u64, request: ListenRequest) -> Heard {
        let targets = self.targets.entry(stream).or_default();
        match request.target_change.expect("a change") {
            Change::AddTarget(target) => {
                let Some(TargetType::Documents(documents)) = target.target_type else {
                    panic!("a target that is no document");
                };
                let (id, name) = (target.target_id, documents.documents[0].clone());
                targets.insert(id, name.clone());
                let changed = |kind: TargetChangeType| {
                    let change = TargetChange {
                        target_change_type: kind.into(),
                        target_ids: vec![id],
                        ..Default::default()
                    };
                    let response_type = Some(ResponseType::TargetChange(change));
                    Told::Firestore(ListenResponse { response_type })
                };
                vec![
                    (stream, changed(TargetChangeType::Add)),
                    (stream, self.state(&name, id)),
                    (stream, changed(TargetChangeType::Current)),
                ]
            }
            Change::RemoveTarget(id) => {
                targets.remove(&id);
                Heard::new()
            }
        }
    }

    pub(crate) fn closes(&mut self, stream: u64) {
        self.targets.remove(&stream);
    }

    pub(crate) fn restarts(&mut self) {
        self.targets.clear();
    }

    /// The number of live locks at a time in milliseconds.
    pub(crate) fn live(&self, now: u64) -> u64 {
        let now = i64::try_from(now).expect("63 bits");
        let is_live = |document: &&Document| {
            let expires_at = document.fields.get("expiresAtMs");
            match expires_at.and_then(|value| value.value_type.as_ref()) {
                Some(ValueType::IntegerValue(expires_at)) => expires_at + TOLERANCE > now,
                _ => false,
            }
        };
        self.all.values().filter(is_live).count() as u64
    }
}

fn name_of(write: &Write) -> &str {
    match &write.operation {
        Some(Operation::Update(document)) => &document.name,
        Some(Operation::Delete(name)) => name,
        _ => panic!("another write"),
    }
}
