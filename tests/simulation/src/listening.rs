//! Streams of changes on the simulated network, of Firestore's `Listen` and etcd's `Watch`.

use std::collections::BTreeMap;

use syncguard_etcd::simulated::{WatchRequest, WatchResponse};
use syncguard_firestore::gcloud_sdk::google::firestore::v1::{ListenRequest, ListenResponse};

use crate::network::{Network, What};
use crate::server::Server;

/// A request on a stream.
#[allow(clippy::large_enum_variant, reason = "few are on their way at a time")]
pub(crate) enum Asked {
    Firestore(ListenRequest),
    Etcd(WatchRequest),
}

/// An answer on a stream.
pub(crate) enum Told {
    Firestore(ListenResponse),
    Etcd(WatchResponse),
}

/// Messages to streams.
pub(crate) type Heard = Vec<(u64, Told)>;

/// Passes an answer on to the backend; `None` is the end of the connection.
pub(crate) type Deliver = Box<dyn Fn(Option<Told>) + Send>;

#[derive(Default)]
pub(crate) struct Listening(BTreeMap<u64, Stream>);

/// A stream, whose number says when it was opened.
struct Stream {
    member: usize,
    deliver: Deliver,
    /// When the last message arrives, in each direction.
    to_server: u64,
    to_client: u64,
}

impl Listening {
    /// All streams of a member end; returns their numbers.
    pub(crate) fn cut(&mut self, member: usize) -> Vec<u64> {
        let cut = self.0.extract_if(.., |_, stream| stream.member == member);
        let end = |(number, stream): (u64, Stream)| {
            (stream.deliver)(None);
            number
        };
        cut.map(end).collect()
    }

    pub(crate) fn deliver(&self, stream: u64, answer: Told) {
        if let Some(stream) = self.0.get(&stream) {
            (stream.deliver)(Some(answer));
        }
    }
}

impl Network {
    pub(crate) fn opens_stream(&mut self, member: usize, deliver: Deliver) -> u64 {
        self.count += 1;
        let stream = Stream { member, deliver, to_server: 0, to_client: 0 };
        self.listening.0.insert(self.count, stream);
        self.count
    }

    pub(crate) fn closes_stream(&mut self, stream: u64) {
        self.listening.0.remove(&stream);
        self.server.closes(stream);
    }

    /// A request on a stream.
    pub(crate) fn listens_to(&mut self, stream: u64, at: u64, request: Asked) {
        let Some(member) = self.listening.0.get(&stream).map(|stream| stream.member) else {
            return;
        };
        let arrives = at.max(self.now) + self.latency(member);
        if self.is_silent(member, stream) {
            return;
        }
        let Some(open) = self.listening.0.get_mut(&stream) else { return };
        open.to_server = arrives.max(open.to_server);
        let at = open.to_server;
        self.at(at, What::Listens { stream, request });
    }

    /// It arrives.
    pub(crate) fn listens_at(&mut self, stream: u64, request: Asked) {
        if !self.listening.0.contains_key(&stream) {
            return;
        }
        let heard = match (&mut self.server, request) {
            (Server::Firestore(documents), Asked::Firestore(request)) => {
                documents.listens(stream, request)
            }
            (Server::Etcd(records), Asked::Etcd(request)) => records.listens(stream, request),
            _ => return,
        };
        self.tells(heard);
    }

    /// Messages leave for streams.
    pub(crate) fn tells(&mut self, heard: Heard) {
        for (stream, answer) in heard {
            let Some(member) = self.listening.0.get(&stream).map(|stream| stream.member) else {
                continue;
            };
            let arrives = self.now + self.latency(member);
            if self.is_silent(member, stream) {
                continue;
            }
            let Some(open) = self.listening.0.get_mut(&stream) else { continue };
            open.to_client = arrives.max(open.to_client);
            let at = open.to_client;
            self.at(at, What::Hears { stream, answer });
        }
    }
}
