//! Fenced writes in Firestore: a holder that lost its lock without noticing cannot overwrite what
//! its successor wrote.
//!
//! ```console
//! $ gcloud emulators firestore start --host-port=127.0.0.1:8080
//! $ export FIRESTORE_EMULATOR_HOST=127.0.0.1:8080
//! $ cargo run -p syncguard --features firestore --example fenced_write_firestore
//! ```
//!
//! A project of yours: `-- firestore://project`, or `SYNCGUARD_STORE`, without the emulator's
//! variable.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::env;
use std::time::Duration;

use syncguard::fenced::{self, precondition};
use syncguard::firestore::gcloud_sdk::google::firestore::v1::firestore_client::FirestoreClient;
use syncguard::firestore::gcloud_sdk::google::firestore::v1::precondition::ConditionType;
use syncguard::firestore::gcloud_sdk::google::firestore::v1::value::ValueType;
use syncguard::firestore::gcloud_sdk::google::firestore::v1::write::Operation;
use syncguard::firestore::gcloud_sdk::google::firestore::v1::{
    CommitRequest, Document, GetDocumentRequest, Precondition, Value, Write,
};
use syncguard::firestore::gcloud_sdk::google_cloud_auth::credentials::anonymous;
use syncguard::firestore::gcloud_sdk::tonic::{Code, Status};
use syncguard::firestore::gcloud_sdk::{GoogleApi, GoogleAuthMiddleware, RequestTimeouts, error};
use syncguard::firestore::{FirestoreBackend, FirestoreOptions};
use syncguard::{AcquisitionOptions, Fence, LockConfig, acquire};

type Client = FirestoreClient<GoogleAuthMiddleware>;

/// Sets a value unless a holder with a higher fence has done so before. Returns whether it wrote.
///
/// The document remembers the fence of its last write. To read it and to write it are two calls, so
/// the write has the condition that the document has not changed; if it has, both calls are
/// repeated.
async fn set(client: &mut Client, path: &str, value: &str, fence: Fence) -> Result<bool, Status> {
    // `projects/…/databases/…`, up to `/documents/…`
    let (database, _) = path.split_once("/documents/").unwrap_or_default();
    let text = |text: String| Value { value_type: Some(ValueType::StringValue(text)) };
    for _ in 0..10 {
        let get = GetDocumentRequest { name: path.to_owned(), ..Default::default() };
        let seen = match client.get_document(get).await {
            Ok(document) => Some(document.into_inner()),
            Err(status) if status.code() == Code::NotFound => None,
            Err(status) => return Err(status),
        };
        let found = seen.as_ref().map(|document| (document.update_time, stored_fence(document)));
        let unchanged = match precondition(fence, found) {
            Ok(fenced::Precondition::Unchanged(time)) => time.map(ConditionType::UpdateTime),
            Ok(fenced::Precondition::Absent) => Some(ConditionType::Exists(false)),
            // A holder with a higher fence has written.
            Err(_) => return Ok(false),
        };
        let fields = [("fence", fence.to_string()), ("value", value.to_owned())];
        let fields = fields.into_iter().map(|(name, of)| (name.to_owned(), text(of))).collect();
        let document = Document { name: path.to_owned(), fields, ..Default::default() };
        let write = Write {
            operation: Some(Operation::Update(document)),
            current_document: Some(Precondition { condition_type: unchanged }),
            ..Default::default()
        };
        let database = database.to_owned();
        let commit = CommitRequest { database, writes: vec![write], ..Default::default() };
        match client.commit(commit).await {
            Ok(_) => return Ok(true),
            // Another writer came in between: read its fence.
            Err(status) if is_conflict(status.code()) => {}
            Err(status) => return Err(status),
        }
    }
    Err(Status::aborted("the document does not stand still"))
}

/// A field of another type is no fence, so nothing is written.
fn stored_fence(document: &Document) -> Option<&str> {
    match document.fields.get("fence")?.value_type.as_ref()? {
        ValueType::StringValue(digits) => Some(digits),
        _ => Some(""),
    }
}

fn is_conflict(code: Code) -> bool {
    matches!(code, Code::FailedPrecondition | Code::Aborted | Code::AlreadyExists | Code::NotFound)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = env::args().nth(1).or_else(|| env::var("SYNCGUARD_STORE").ok());
    let url = url.as_deref().unwrap_or("firestore://demo-syncguard");
    let project = url.strip_prefix("firestore://").ok_or("the URL is firestore://project")?;
    let database = format!("projects/{project}/databases/(default)");
    let mut client = connect(&database).await?;
    let backend = FirestoreBackend::from_client(
        client.clone(),
        FirestoreOptions::new().with_project(project),
    )?;

    // A holder stalls and does not notice that its lock expires. A successor takes over.
    let patient = AcquisitionOptions::new().with_timeout(Duration::from_secs(60));
    let config = LockConfig::new("profile:7").with_acquisition(patient);
    let stalled = acquire(&backend, config.clone().with_ttl(Duration::from_secs(3))).await?;
    let successor = acquire(&backend, config).await?;

    let path = format!("{database}/documents/profiles/7");
    let written = set(&mut client, &path, "new", successor.fence()).await?;
    println!("the successor writes under fence {}: {written}", successor.fence());
    let written = set(&mut client, &path, "old", stalled.fence()).await?;
    println!("the stalled one writes under fence {}: {written}", stalled.fence());

    println!("released: {}", successor.release().await?.is_released());
    Ok(())
}

async fn connect(database: &str) -> Result<Client, error::Error> {
    let (new, prefix) = (FirestoreClient::new, Some(database.to_owned()));
    let api = match env::var("FIRESTORE_EMULATOR_HOST") {
        Ok(host) => {
            let (url, nobody) = (format!("http://{host}"), anonymous::Builder::new().build());
            GoogleApi::from_function_with_credentials(new, url, prefix, nobody).await?
        }
        Err(_) => GoogleApi::from_function(new, "https://firestore.googleapis.com", prefix).await?,
    };
    // Without a limit a call waits for as long as its connection lives.
    Ok(api.with_request_timeouts(RequestTimeouts::new().with_total(Duration::from_secs(5))).get())
}
