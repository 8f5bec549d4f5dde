//! `Listen` streams on the simulated network.

use std::collections::BTreeMap;

use syncguard_firestore::gcloud_sdk::google::firestore::v1::{ListenRequest, ListenResponse};
use syncguard_firestore::gcloud_sdk::tonic::Status;
use tokio::sync::mpsc::UnboundedSender;

use super::calls::lost;
use super::documents::Heard;
use crate::hub::{Hub, What};
use crate::server::Server;

#[derive(Default)]
pub(crate) struct Streams(BTreeMap<u64, Stream>);

/// A stream, whose number says when it was opened.
struct Stream {
    member: usize,
    answers: UnboundedSender<Result<ListenResponse, Status>>,
    /// When the last message arrives, in each direction.
    to_server: u64,
    to_client: u64,
}

impl Streams {
    /// All streams of a member end; returns their numbers.
    pub(crate) fn cut(&mut self, member: usize) -> Vec<u64> {
        let cut = self.0.extract_if(.., |_, stream| stream.member == member);
        let end = |(number, stream): (u64, Stream)| {
            let _ = stream.answers.send(Err(lost()));
            number
        };
        cut.map(end).collect()
    }

    pub(crate) fn deliver(&self, stream: u64, answer: ListenResponse) {
        if let Some(stream) = self.0.get(&stream) {
            let _ = stream.answers.send(Ok(answer));
        }
    }
}

impl Hub {
    pub(super) fn opens_stream(
        &mut self,
        member: usize,
        answers: UnboundedSender<Result<ListenResponse, Status>>,
    ) -> u64 {
        self.count += 1;
        let stream = Stream { member, answers, to_server: 0, to_client: 0 };
        self.listening.0.insert(self.count, stream);
        self.count
    }

    pub(super) fn closes_stream(&mut self, stream: u64) {
        self.listening.0.remove(&stream);
        self.server.closes(stream);
    }

    /// A request on a stream.
    pub(super) fn listens_to(&mut self, stream: u64, at: u64, request: ListenRequest) {
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
    pub(crate) fn listens_at(&mut self, stream: u64, request: ListenRequest) {
        if let Server::Firestore(documents) = &mut self.server
            && self.listening.0.contains_key(&stream)
        {
            let heard = documents.listens(stream, request);
            self.tells(heard);
        }
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
