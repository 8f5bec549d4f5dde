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
    let listen = move |subscriptions| {
        let session = Session {
            subscriptions,
            timeout,
            watches: HashMap::new(),
            last: 0,
            is_asked: false,
            deadline: None,
        };
        session.listen(Arc::clone(&client))
    };
    SignalHub::new("etcd", limits, OutageLog::default(), listen)
}

/// A stream, and the watches on it.
struct Session {
    subscriptions: Subscriptions,
    /// How long the server may take to answer.
    timeout: Duration,
    /// By the names of locks.
    watches: HashMap<String, Watch>,
    last: i64,
    /// The server owes an answer to a question for a sign of life.
    is_asked: bool,
    /// When the server must have answered, while it owes answers.
    deadline: Option<Instant>,
}

struct Watch {
    id: i64,
    is_confirmed: bool,
}

/// Sends requests to the server.
type Requests = mpsc::UnboundedSender<WatchRequest>;

impl Session {
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
            if let Some(Watch { id: watch_id, .. }) = self.watches.remove(&name) {
                send(WatchUnion::Cancel(WatchCancelRequest { watch_id }));
            }
        }
        for name in changes.subscribe {
            match self.watches.get(&name) {
                None => {
                    self.last += 1;
                    let (key, watch_id) = (name.clone().into_bytes(), self.last);
                    let request = WatchCreateRequest { key, filters: vec![NO_PUT], watch_id };
                    send(WatchUnion::Create(request));
                    self.watches.insert(name, Watch { id: watch_id, is_confirmed: false });
                }
                // The lock may be over already, with the event still on its way.
                Some(watch) if watch.is_confirmed => {
                    self.subscriptions.confirm(&name, LockSeen::MayBeFree);
                }
                Some(_) => {}
            }
        }
        self.set_deadline();
    }

    fn on_answer(&mut self, answer: &WatchResponse) {
        // Any answer is a sign of life; the one to the question belongs to no watch.
        self.is_asked = false;
        self.deadline = None;
        let mut watches = self.watches.iter_mut();
        if let Some((name, watch)) = watches.find(|(_, watch)| watch.id == answer.watch_id) {
            if answer.canceled {
                // The user may not read the name, or the server has given the watch up.
                self.subscriptions.refuse(name);
                self.subscriptions.end(name);
                let name = name.clone();
                self.watches.remove(&name);
            } else if answer.created {
                watch.is_confirmed = true;
                // The waiter asks once more, now that no release escapes it.
                self.subscriptions.confirm(name, LockSeen::MayBeFree);
            } else if answer.events.iter().any(|event| event.r#type == DELETE) {
                self.subscriptions.signal(name);
            }
        }
        self.set_deadline();
    }

    fn set_deadline(&mut self) {
        let owes = self.is_asked || self.watches.values().any(|watch| !watch.is_confirmed);
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
