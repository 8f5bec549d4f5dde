//! One stream.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use gcloud_sdk::GoogleAuthMiddleware;
use gcloud_sdk::google::firestore::v1::firestore_client::FirestoreClient;
use gcloud_sdk::google::firestore::v1::listen_request::TargetChange;
use gcloud_sdk::google::firestore::v1::target::{DocumentsTarget, TargetType};
use gcloud_sdk::google::firestore::v1::{ListenRequest, Target};
use gcloud_sdk::tonic::codegen::tokio_stream;
use gcloud_sdk::tonic::{Code, Status};
use syncguard_core::LockError;
use syncguard_core::authoring::signals::{Changes, LockSeen, SignalEnd, Subscriptions};
use syncguard_core::contract::is_live;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::targets::{Added, News, TargetId, Targets};
use crate::clock::{self, Clock};
use crate::error::{self, Rpc};

/// The documents that are listened to over a stream.
pub(super) struct Session {
    subscriptions: Subscriptions,
    database: String,
    clock: Arc<Clock>,
    /// How long the server may take to say that it listens.
    timeout: Duration,
    targets: Targets,
    /// When the server must have said so of another document, while it is being asked.
    due: Option<Instant>,
}

/// The way to the server.
type Requests = mpsc::UnboundedSender<ListenRequest>;

impl Session {
    pub(super) fn new(
        subscriptions: Subscriptions,
        database: String,
        clock: Arc<Clock>,
        timeout: Duration,
    ) -> Self {
        let targets = Targets::default();
        Self { subscriptions, database, clock, timeout, targets, due: None }
    }

    /// Listens until the stream ends, or nobody watches anything.
    pub(super) async fn listen(
        mut self,
        mut firestore: FirestoreClient<GoogleAuthMiddleware>,
    ) -> Result<SignalEnd, LockError> {
        let (requests, sent) = mpsc::unbounded_channel();
        // The server answers once it has something to say.
        let Some(changes) = self.subscriptions.next().await else { return Ok(SignalEnd::Closed) };
        self.ask(changes, &requests);
        let mut answers = match firestore.listen(Sent(sent)).await {
            Ok(answers) => answers.into_inner(),
            Err(status) => return failed(&status),
        };
        loop {
            tokio::select! {
                biased;
                answer = answers.message() => match answer {
                    Ok(Some(answer)) => {
                        let news = answer.response_type.map(|answer| self.targets.hear(answer));
                        news.into_iter().flatten().for_each(|news| self.tell(news));
                        self.expect_answers();
                    }
                    Ok(None) => return Ok(SignalEnd::Closed),
                    Err(status) => return failed(&status),
                },
                changes = self.subscriptions.next() => {
                    let Some(changes) = changes else { return Ok(SignalEnd::Closed) };
                    self.ask(changes, &requests);
                }
                () = sleep_until(self.due.unwrap_or_else(Instant::now)), if self.due.is_some() => {
                    return Err(error::timed_out(Rpc::Read).error);
                }
            }
        }
    }

    fn ask(&mut self, changes: Changes, requests: &Requests) {
        // A stream that is over says so by its answers.
        let send = |request| drop(requests.send(request));
        for name in changes.unsubscribe {
            if let Some(target) = self.targets.remove(&name) {
                send(self.request(TargetChange::RemoveTarget(target)));
            }
        }
        for name in changes.subscribe {
            match self.targets.add(&name) {
                Added::New(target) => {
                    send(self.request(TargetChange::AddTarget(documents(target, name))));
                }
                Added::Asked => {}
                // What is known of it may be over, with the news of that still on its way.
                Added::Heard => self.subscriptions.confirm(&name, LockSeen::MayBeFree),
                Added::TooMany => self.subscriptions.refuse(&name),
            }
        }
        self.expect_answers();
    }

    fn expect_answers(&mut self) {
        let due = || self.due.unwrap_or_else(|| Instant::now() + self.timeout);
        self.due = self.targets.are_asked().then(due);
    }

    fn tell(&mut self, news: News) {
        match news {
            News::Listening(name, told) => {
                let now = clock::timestamp(&*self.clock).ok();
                let held = told.zip(now).filter(|(told, now)| is_live(told.expires_at, *now));
                let polls = held.map(|(told, _)| !told.has_holder);
                self.subscriptions.confirm(&name, LockSeen::of(polls));
                self.due = None;
            }
            News::MayBeFree(name) => self.subscriptions.signal(&name),
            News::Refused(name) => {
                self.subscriptions.refuse(&name);
                self.subscriptions.end(&name);
            }
        }
    }

    fn request(&self, change: TargetChange) -> ListenRequest {
        ListenRequest {
            database: self.database.clone(),
            target_change: Some(change),
            ..ListenRequest::default()
        }
    }
}

fn documents(target_id: TargetId, name: String) -> Target {
    let documents = DocumentsTarget { documents: vec![name] };
    Target { target_id, target_type: Some(TargetType::Documents(documents)), ..Target::default() }
}

/// The service closes a stream from time to time; and a connection that ends is no news.
fn failed(status: &Status) -> Result<SignalEnd, LockError> {
    match status.code() {
        Code::Ok | Code::Cancelled => Ok(SignalEnd::Closed),
        _ => Err(error::from_status(status, Rpc::Read).error),
    }
}

/// The requests to the server.
struct Sent(mpsc::UnboundedReceiver<ListenRequest>);

impl tokio_stream::Stream for Sent {
    type Item = ListenRequest;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<ListenRequest>> {
        self.0.poll_recv(context)
    }
}
