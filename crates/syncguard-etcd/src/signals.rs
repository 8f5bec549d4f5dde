//! Signals: a stream of watches reports that a lock was deleted, while waiters wait for it.
//!
//! Without a leader the member ends the stream; without that wish, the watches of a member that is cut off would be silent
//! for ever. A watch begins at the present revision, so a compaction never passes it by.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use syncguard_core::LockError;
use syncguard_core::authoring::signals::{
    Changes, LockSeen, SignalEnd, SignalHub, SignalLimits, Subscriptions,
};
use syncguard_core::authoring::{Fault, OutageLog};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tonic::codegen::tokio_stream::StreamExt as _;
use tonic::codegen::tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Code, Status};

use crate::client::{self, Client};
use crate::error::{self, Rpc};
use crate::wire::{
    DELETE, NO_PUT, WatchCancelRequest, WatchCreateRequest, WatchRequest, WatchResponse, WatchUnion,
};

/// Makes the signal hub of a backend. `timeout` is how long the server may take to confirm a watch.
pub(crate) fn hub(client: Arc<Client>, timeout: Duration) -> SignalHub {
    let limits = SignalLimits { open: timeout, step: timeout, confirm: timeout };
    let listen =
        move |subscriptions| Session::new(subscriptions, timeout).listen(Arc::clone(&client));
    SignalHub::new("etcd", limits, OutageLog::default(), listen)
}

/// A stream, and the watches on it.
struct Session {
    subscriptions: Subscriptions,
    /// How long the server may take to answer.
    timeout: Duration,
    names: HashMap<i64, Watch>,
    ids: HashMap<String, i64>,
    last: i64,
    /// The server owes an answer to a question for a sign of life.
    is_asked: bool,
    /// When the server must have answered, while it owes answers.
    deadline: Option<Instant>,
}

struct Watch {
    name: String,
    is_confirmed: bool,
}

/// Sends requests to the server.
type Requests = mpsc::UnboundedSender<WatchRequest>;

impl Session {
    fn new(subscriptions: Subscriptions, timeout: Duration) -> Self {
        Self {
            subscriptions,
            timeout,
            names: HashMap::new(),
            ids: HashMap::new(),
            last: 0,
            is_asked: false,
            deadline: None,
        }
    }

    /// Listens until the stream ends, the subscriptions end, or another member takes the place of this one.
    async fn listen(mut self, client: Arc<Client>) -> Result<SignalEnd, LockError> {
        let (requests, receiver) = mpsc::unbounded_channel();
        // The server answers only after it has got a request.
        let Some(changes) = self.subscriptions.next().await else { return Ok(SignalEnd::Closed) };
        self.request_changes(changes, &requests);
        let mut member = client.members.current.follow();
        let service = Arc::clone(&member.borrow_and_update().0.service);
        let opening = async {
            let (token, _) = client.token(&*service).await.map_err(|fault| Err(fault.error))?;
            let request = client::request(UnboundedReceiverStream::new(receiver), token, None);
            service.watch(request).await.map_err(|status| failed(&status))
        };
        let mut answers = match timeout(self.timeout, opening).await {
            Ok(Ok(answers)) => answers,
            Ok(Err(end)) => return end,
            Err(_) => return Err(Fault::timed_out(false).error),
        };
        loop {
            tokio::select! {
                biased;
                answer = answers.next() => match answer {
                    Some(Ok(answer)) => self.on_answer(&answer),
                    Some(Err(status)) => return failed(&status),
                    None => return Ok(SignalEnd::Closed),
                },
                changes = self.subscriptions.next() => {
                    let Some(changes) = changes else { return Ok(SignalEnd::Closed) };
                    self.request_changes(changes, &requests);
                }
                _ = member.changed() => return Ok(SignalEnd::Closed),
                () = sleep_until(self.deadline.unwrap_or_else(Instant::now)), if self.deadline.is_some() => {
                    return Err(Fault::timed_out(false).error);
                }
            }
        }
    }

    fn request_changes(&mut self, changes: Changes, requests: &Requests) {
        // If the stream has ended, its answers show it.
        let send = |union| drop(requests.send(WatchRequest { request_union: Some(union) }));
        if changes.is_empty() {
            self.is_asked = true;
            send(WatchUnion::Progress(()));
        }
        for name in changes.unsubscribe {
            if let Some(watch_id) = self.ids.remove(&name) {
                self.names.remove(&watch_id);
                send(WatchUnion::Cancel(WatchCancelRequest { watch_id }));
            }
        }
        for name in changes.subscribe {
            match self.ids.get(&name).and_then(|watch_id| self.names.get(watch_id)) {
                None => send(WatchUnion::Create(self.watch(name))),
                // The lock may be over already, with the event still on its way.
                Some(watch) if watch.is_confirmed => {
                    self.subscriptions.confirm(&name, LockSeen::MayBeFree);
                }
                Some(_) => {}
            }
        }
        self.set_deadline();
    }

    fn watch(&mut self, name: String) -> WatchCreateRequest {
        self.last += 1;
        let request = WatchCreateRequest {
            key: name.clone().into_bytes(),
            filters: vec![NO_PUT],
            watch_id: self.last,
        };
        self.ids.insert(name.clone(), self.last);
        self.names.insert(self.last, Watch { name, is_confirmed: false });
        request
    }

    fn on_answer(&mut self, answer: &WatchResponse) {
        // Any answer is a sign of life; the one to the question belongs to no watch.
        self.is_asked = false;
        self.deadline = None;
        if let Some(watch) = self.names.get_mut(&answer.watch_id) {
            if answer.canceled {
                // The user may not read the name, or the server has given the watch up.
                let name = watch.name.clone();
                self.ids.remove(&name);
                self.names.remove(&answer.watch_id);
                self.subscriptions.refuse(&name);
                self.subscriptions.end(&name);
            } else if answer.created {
                watch.is_confirmed = true;
                // The waiter asks once more, now that no release escapes it.
                self.subscriptions.confirm(&watch.name, LockSeen::MayBeFree);
            } else if answer.events.iter().any(|event| event.r#type == DELETE) {
                self.subscriptions.signal(&watch.name);
            }
        }
        self.set_deadline();
    }

    fn set_deadline(&mut self) {
        let owes = self.is_asked || self.names.values().any(|watch| !watch.is_confirmed);
        let deadline = || self.deadline.unwrap_or_else(|| Instant::now() + self.timeout);
        self.deadline = owes.then(deadline);
    }
}

/// Servers close streams when they stop, and connections end; neither is a failure.
fn failed(status: &Status) -> Result<SignalEnd, LockError> {
    match status.code() {
        Code::Ok | Code::Cancelled => Ok(SignalEnd::Closed),
        _ => Err(error::from_status(status, Rpc::Read).error),
    }
}
