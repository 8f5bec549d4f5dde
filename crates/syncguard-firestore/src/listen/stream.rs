//! What comes over the stream.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use gcloud_sdk::GoogleAuthMiddleware;
use gcloud_sdk::google::firestore::v1::firestore_client::FirestoreClient;
use gcloud_sdk::google::firestore::v1::listen_response::ResponseType;
use gcloud_sdk::google::firestore::v1::target_change::TargetChangeType;
use gcloud_sdk::google::firestore::v1::{ListenRequest, TargetChange};
use gcloud_sdk::tonic::codegen::tokio_stream;
use gcloud_sdk::tonic::{Code, Status, Streaming};
use tokio::sync::{mpsc, oneshot};

use super::board::{Board, Told};
use super::listener::Owner;
use crate::document::Record;

/// One stream. Dropped before its end, with its runtime, all of its watches end.
pub(super) struct Stream {
    owner: Owner,
    session: u64,
    /// How long the server may take to begin.
    timeout: Duration,
}

/// What is sent to the server.
struct Requests(mpsc::UnboundedReceiver<ListenRequest>);

impl tokio_stream::Stream for Requests {
    type Item = ListenRequest;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<ListenRequest>> {
        self.0.poll_recv(context)
    }
}

impl Stream {
    /// A stream over which nobody listens is closed after this time.
    const IDLE: Duration = Duration::from_secs(10);

    pub(super) fn new(owner: Owner, session: u64, timeout: Duration) -> Self {
        Self { owner, session, timeout }
    }

    /// Hears until the stream ends, is idle, or its session is gone.
    pub(super) async fn run(
        self,
        firestore: FirestoreClient<GoogleAuthMiddleware>,
        requests: mpsc::UnboundedReceiver<ListenRequest>,
        ended: oneshot::Receiver<()>,
    ) {
        tokio::select! {
            biased;
            _ = ended => {}
            () = self.listen(firestore, requests) => {}
        }
    }

    async fn listen(
        &self,
        mut firestore: FirestoreClient<GoogleAuthMiddleware>,
        requests: mpsc::UnboundedReceiver<ListenRequest>,
    ) {
        let opened = firestore.listen(Requests(requests));
        let result = match tokio::time::timeout(self.timeout, opened).await {
            Ok(Ok(answers)) => self.hear(answers.into_inner()).await,
            Ok(Err(status)) => Err(status),
            Err(_) => Err(Status::deadline_exceeded("no answer")),
        };
        match result {
            Ok(()) => {}
            // The service closes a stream from time to time; and a connection that ends is no news.
            Err(status) if matches!(status.code(), Code::Ok | Code::Cancelled) => {
                self.ended(None);
            }
            // The code alone: a message may quote a document's name.
            Err(status) => self.ended(Some(status.code().description())),
        }
    }

    fn ended(&self, failure: Option<&str>) {
        if let Some(listener) = self.owner.get() {
            listener.ended(self.session, failure);
        }
    }

    async fn hear(
        &self,
        mut answers: Streaming<gcloud_sdk::google::firestore::v1::ListenResponse>,
    ) -> Result<(), Status> {
        loop {
            let answer = tokio::select! {
                biased;
                answer = answers.message() => answer?,
                () = tokio::time::sleep(Self::IDLE) => {
                    if self.owner.get().is_none_or(|it| it.ended_idle(self.session)) {
                        return Ok(());
                    }
                    continue;
                }
            };
            let Some(answer) = answer else { return Err(Status::ok("closed")) };
            let Some(answer) = answer.response_type else { continue };
            let Some(listener) = self.owner.get() else { return Ok(()) };
            match listener.with(self.session, |board| take(board, answer)) {
                // Replaced meanwhile.
                None => return Ok(()),
                Some(true) => listener.works(),
                Some(false) => {}
            }
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.ended(None);
    }
}

/// Notes what the server says. Whether it says that it listens.
fn take(board: &mut Board, answer: ResponseType) -> bool {
    match answer {
        ResponseType::TargetChange(change) => return targets_changed(board, &change),
        ResponseType::DocumentChange(change) => {
            let Some(document) = change.document else { return false };
            let name = document.name.clone();
            // What cannot be read is no lock that one could wait for.
            let lock = Record::read(document).ok().map(|record| Told {
                expires_at: record.expires_at,
                has_holder: record.has_holder,
            });
            if change.target_ids.is_empty() {
                board.gone(&name);
            } else {
                board.changed(&name, lock);
            }
        }
        ResponseType::DocumentDelete(gone) => board.gone(&gone.document),
        ResponseType::DocumentRemove(gone) => board.gone(&gone.document),
        // Documents of the target are gone, and the server does not know which: a target has one.
        ResponseType::Filter(filter) if filter.count == 0 => board.may_be_gone(&[filter.target_id]),
        ResponseType::Filter(_) => {}
    }
    false
}

fn targets_changed(board: &mut Board, change: &TargetChange) -> bool {
    match change.target_change_type() {
        TargetChangeType::Current => {
            board.current(&change.target_ids);
            true
        }
        TargetChangeType::Remove => {
            board.refused(&change.target_ids);
            false
        }
        TargetChangeType::Reset => {
            // The first state comes once more, without a word on a document that is gone since.
            board.may_be_gone(&change.target_ids);
            false
        }
        TargetChangeType::Add | TargetChangeType::NoChange => false,
    }
}
