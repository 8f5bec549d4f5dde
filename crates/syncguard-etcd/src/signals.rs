//! Signals: a stream of watches reports that a lock was deleted, while waiters wait for it.
//!
//! The stream asks for a leader, so a member without one ends it. Otherwise the watches of a member that is cut off would be
//! silent for ever. A watch begins at the present revision, so a compaction never passes it by.

use std::collections::{HashMap, VecDeque};
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
            wanted: VecDeque::new(),
            asked: None,
            deadline: None,
        };
        session.listen(Arc::clone(&client))
    };
    SignalHub::new("etcd", limits, OutageLog::default(), listen)
}

/// A stream, and the watches on it.
///
/// The server chooses the ids of watches, since a proxy gives ids of its own whatever it is asked. An answer to a request for
/// a watch names only the id, and a proxy answers requests in any order. So there is one such request at a time, as in etcd's
/// own client.
struct Session {
    subscriptions: Subscriptions,
    /// How long the server may take to answer.
    timeout: Duration,
    /// The ids of watches, by the names of locks; `None` before the server has confirmed the watch.
    watches: HashMap<String, Option<i64>>,
    /// The watches to ask for.
    wanted: VecDeque<String>,
    /// The watch that the server is asked for.
    asked: Option<String>,
    /// When the server must have answered, while it owes an answer.
    deadline: Option<Instant>,
}

/// Sends requests to the server. If the stream has ended, its answers show it.
struct Requests(mpsc::UnboundedSender<WatchRequest>);

impl Requests {
    fn send(&self, union: WatchUnion) {
        drop(self.0.send(WatchRequest { request_union: Some(union) }));
    }

    fn cancel(&self, watch_id: i64) {
        self.send(WatchUnion::Cancel(WatchCancelRequest { watch_id }));
    }
}

impl Session {
    /// Listens until the stream ends, the subscriptions end, or another member takes the place of this one.
    async fn listen(mut self, client: Arc<Client>) -> Result<SignalEnd, LockError> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let requests = Requests(sender);
        // The server answers only after it has got a request.
        let Some(changes) = self.subscriptions.next().await else { return Ok(SignalEnd::Closed) };
        self.request_changes(changes, &requests);
        let mut member = client.members.current.follow();
        let service = Arc::clone(&member.borrow_and_update().0.service);
        let opening = async {
            let (token, login) = client.token(&*service).await.map_err(|fault| Err(fault.error))?;
            let request = client::request(UnboundedReceiverStream::new(receiver), token, None);
            let answers = service.watch(request).await.map_err(|status| failed(&status))?;
            Ok((answers, login))
        };
        let (mut answers, login) = match timeout(self.timeout, opening).await {
            Ok(Ok(opened)) => opened,
            Ok(Err(end)) => return end,
            Err(_) => return Err(Fault::timed_out(false).error),
        };
        loop {
            tokio::select! {
                biased;
                answer = answers.next() => match answer {
                    Some(Ok(answer)) => if let Err(refused) = self.on_answer(&answer, &requests) {
                        // The stream keeps the token with which it was opened, which may have expired.
                        client.forget(login).await;
                        return Err(refused);
                    },
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
        if changes.is_empty() {
            // A second watch of a name is a sign of life, also from a proxy, and shows that the token is still good.
            self.wanted.extend(self.watches.keys().next().cloned());
        }
        for name in changes.unsubscribe {
            if let Some(Some(watch_id)) = self.watches.remove(&name) {
                requests.cancel(watch_id);
            }
        }
        for name in changes.subscribe {
            match self.watches.get(&name) {
                None => {
                    self.watches.insert(name.clone(), None);
                    self.wanted.push_back(name);
                }
                // The lock may be over already, with the event still on its way.
                Some(Some(_)) => self.subscriptions.confirm(&name, LockSeen::MayBeFree),
                Some(None) => {}
            }
        }
        self.ask(requests);
    }

    /// # Errors
    ///
    /// The server has refused a watch.
    fn on_answer(&mut self, answer: &WatchResponse, requests: &Requests) -> Result<(), LockError> {
        // Any answer is a sign of life.
        self.deadline = self.asked.is_some().then(|| Instant::now() + self.timeout);
        if answer.created {
            if answer.canceled {
                return Err(error::watch_refused());
            }
            let name = self.asked.take();
            match name.as_ref().and_then(|name| self.watches.get_mut(name)) {
                Some(id @ None) => *id = Some(answer.watch_id),
                // It is the second one, or no waiter wants it any more.
                _ => requests.cancel(answer.watch_id),
            }
            // The waiter asks once more, now that no release escapes it.
            name.inspect(|name| self.subscriptions.confirm(name, LockSeen::MayBeFree));
            self.ask(requests);
            return Ok(());
        }
        let mut watches = self.watches.iter();
        if let Some((name, _)) = watches.find(|(_, id)| **id == Some(answer.watch_id)) {
            if answer.canceled {
                // The server has given the watch up.
                self.subscriptions.end(name);
                let name = name.clone();
                self.watches.remove(&name);
            } else if answer.events.iter().any(|event| event.r#type == DELETE) {
                self.subscriptions.signal(name);
            }
        }
        Ok(())
    }

    /// Asks for the next watch, if the server has answered the last request for one.
    fn ask(&mut self, requests: &Requests) {
        while self.asked.is_none() {
            let Some(name) = self.wanted.pop_front() else {
                self.deadline = None;
                return;
            };
            if self.watches.contains_key(&name) {
                let key = name.clone().into_bytes();
                let create = WatchCreateRequest { key, filters: vec![NO_PUT] };
                requests.send(WatchUnion::Create(create));
                self.asked = Some(name);
                self.deadline = Some(Instant::now() + self.timeout);
            }
        }
    }
}

/// Servers close streams when they stop, and connections end; neither is a failure.
fn failed(status: &Status) -> Result<SignalEnd, LockError> {
    match status.code() {
        Code::Ok | Code::Cancelled => Ok(SignalEnd::Closed),
        _ => Err(error::from_status(status, Rpc::Read).error),
    }
}
