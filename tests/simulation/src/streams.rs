//! Streams of calls on the simulated network, of Firestore's `Listen` and etcd's `Watch`.

use std::io::{Error, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;

use syncguard_etcd::simulated::Calling;
use syncguard_etcd::simulated::tonic::Status;
use syncguard_etcd::simulated::tonic::codegen::tokio_stream::wrappers::UnboundedReceiverStream;
use syncguard_etcd::simulated::tonic::codegen::tokio_stream::{Stream, StreamExt as _};
use tokio::sync::mpsc::unbounded_channel;

use crate::link::Link;
use crate::listening::{Asked, Told};

/// The connection was lost during the call.
pub(crate) fn lost() -> Status {
    Status::from_error(Box::new(Error::from(ErrorKind::ConnectionReset)))
}

type Answers<A> = Pin<Box<dyn Stream<Item = Result<A, Status>> + Send>>;

/// Opens a stream, which passes on the requests until they end. `answer` takes an answer of the kind of the stream.
pub(crate) fn open<Q: Send + 'static, A: Send + 'static>(
    link: &Arc<Link>,
    not_connected: fn() -> Status,
    mut requests: UnboundedReceiverStream<Q>,
    ask: fn(Q) -> Asked,
    answer: fn(Told) -> Option<A>,
) -> Calling<Result<Answers<A>, Status>> {
    let link = Arc::clone(link);
    Box::pin(async move {
        link.connected().await.ok_or_else(not_connected)?;
        let (sender, answers) = unbounded_channel();
        let deliver = move |told: Option<Told>| {
            let _ = sender.send(told.and_then(answer).ok_or_else(lost));
        };
        let stream = link.network().opens_stream(link.member, Box::new(deliver));
        tokio::spawn(async move {
            while let Some(request) = requests.next().await {
                link.network().listens_to(stream, link.now(), ask(request));
            }
            link.network().closes_stream(stream);
        });
        Ok(Box::pin(UnboundedReceiverStream::new(answers)) as Answers<A>)
    })
}
