//! Signals: a `Listen` stream reports that a lock's document was deleted, while waiters watch it.

mod targets;

use std::sync::Arc;
use std::time::Duration;

use gcloud_sdk::google::firestore::v1::listen_request::TargetChange;
use gcloud_sdk::google::firestore::v1::target::{DocumentsTarget, TargetType};
use gcloud_sdk::google::firestore::v1::{ListenRequest, Target};
use gcloud_sdk::tonic::codegen::tokio_stream::StreamExt as _;
use gcloud_sdk::tonic::codegen::tokio_stream::wrappers::UnboundedReceiverStream;
use gcloud_sdk::tonic::{Code, Status};
use syncguard_core::LockError;
use syncguard_core::authoring::signals::{
    Changes, LockSeen, SignalEnd, SignalHub, SignalLimits, Subscriptions,
};
use syncguard_core::authoring::{Fault, OutageLog};
use syncguard_core::contract::is_live;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use self::targets::{Added, Event, TargetId, Targets};
use crate::client::Client;
use crate::error::{self, Rpc};

/// Makes the signal hub of a backend. `timeout` is how long the server may take to confirm a watch.
pub(crate) fn hub(client: Arc<Client>, timeout: Duration) -> SignalHub {
    let limits = SignalLimits { open: timeout, step: timeout, confirm: timeout };
    let listen = move |subscriptions| {
        let (client, targets) = (Arc::clone(&client), Targets::default());
        Session { subscriptions, client, timeout, targets }.listen()
    };
    SignalHub::new("firestore", limits, OutageLog::default(), listen)
}

/// A stream, and the documents that it listens to.
struct Session {
    subscriptions: Subscriptions,
    client: Arc<Client>,
    /// How long the server may take to confirm a document.
    timeout: Duration,
    targets: Targets,
}

/// Sends requests to the server.
type Requests = mpsc::UnboundedSender<ListenRequest>;

impl Session {
    /// Listens until the stream ends, the subscriptions end, or another channel takes the place of this one.
    async fn listen(mut self) -> Result<SignalEnd, LockError> {
        let (requests, receiver) = mpsc::unbounded_channel();
        // The server answers only after it has got a request.
        let Some(changes) = self.subscriptions.next().await else { return Ok(SignalEnd::Closed) };
        self.request_changes(changes, &requests);
        let mut connection = self.client.connection.follow();
        let firestore = Arc::clone(&connection.borrow_and_update().0);
        let mut answers = match firestore.listen(UnboundedReceiverStream::new(receiver)).await {
            Ok(answers) => answers,
            Err(status) => return failed(&status),
        };
        loop {
            // When the server must have confirmed another document.
            let deadline = self.targets.pending_since().map(|since| since + self.timeout);
            tokio::select! {
                biased;
                answer = answers.next() => match answer {
                    Some(Ok(answer)) => {
                        let events = answer.response_type.map(|answer| self.targets.on_answer(answer));
                        events.into_iter().flatten().for_each(|event| self.pass_on(event));
                    }
                    Some(Err(status)) => return failed(&status),
                    None => return Ok(SignalEnd::Closed),
                },
                changes = self.subscriptions.next() => {
                    let Some(changes) = changes else { return Ok(SignalEnd::Closed) };
                    self.request_changes(changes, &requests);
                }
                _ = connection.changed() => return Ok(SignalEnd::Closed),
                () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                    return Err(Fault::timed_out(false).error);
                }
            }
        }
    }

    fn request_changes(&mut self, changes: Changes, requests: &Requests) {
        // If the stream has ended, its answers show it.
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
                Added::Pending => {}
                // The lock may be over already, with the event still on its way.
                Added::Confirmed => self.subscriptions.confirm(&name, LockSeen::MayBeFree),
                Added::TooMany => self.subscriptions.refuse(&name),
            }
        }
    }

    fn pass_on(&mut self, event: Event) {
        match event {
            Event::Confirmed(name, lock) => {
                let time = self.client.clock.now().ok();
                let held = lock.zip(time);
                let held = held.filter(|(lock, time)| is_live(lock.expires_at, time.earliest));
                let is_polled = held.map(|(lock, _)| lock.is_polled);
                self.subscriptions.confirm(&name, LockSeen::of(is_polled));
            }
            Event::MayBeFree(name) => self.subscriptions.signal(&name),
            Event::Refused(name) => {
                self.subscriptions.refuse(&name);
                self.subscriptions.end(&name);
            }
        }
    }

    fn request(&self, change: TargetChange) -> ListenRequest {
        ListenRequest {
            database: self.client.database.clone(),
            target_change: Some(change),
            ..ListenRequest::default()
        }
    }
}

fn documents(target_id: TargetId, name: String) -> Target {
    let documents = DocumentsTarget { documents: vec![name] };
    Target { target_id, target_type: Some(TargetType::Documents(documents)), ..Target::default() }
}

/// The service closes a stream from time to time, and connections end; neither is a failure.
fn failed(status: &Status) -> Result<SignalEnd, LockError> {
    match status.code() {
        Code::Ok | Code::Cancelled => Ok(SignalEnd::Closed),
        _ => Err(error::from_status(status, Rpc::Read).error),
    }
}
