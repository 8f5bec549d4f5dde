//! A gRPC server in front of the emulator that answers some calls itself.

#![allow(clippy::print_stderr, reason = "for whoever reads a failed test")]

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use anyhow::Result;
use syncguard_firestore::gcloud_sdk::tonic::body::Body;
use syncguard_firestore::gcloud_sdk::tonic::codegen::http::{Request, Response};
use syncguard_firestore::gcloud_sdk::tonic::codegen::{BoxFuture, Service};
use syncguard_firestore::gcloud_sdk::tonic::server::NamedService;
use syncguard_firestore::gcloud_sdk::tonic::transport::server::TcpIncoming;
use syncguard_firestore::gcloud_sdk::tonic::transport::{Channel, Endpoint, Server};
use syncguard_firestore::gcloud_sdk::tonic::{Code, Status};
use tokio::sync::Notify;

use crate::firestore::support::shared;

/// The rule for calls of a method.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    pub(crate) method: &'static str,
    pub(crate) code: Code,
    /// The number of calls that it applies to.
    pub(crate) times: u32,
    /// True if the emulator carries out the call all the same.
    pub(crate) carried_out: bool,
}

/// A method, the signal that a call has arrived, and the signal that lets the call go on.
type Hold = (&'static str, Arc<Notify>, Arc<Notify>);

/// Passes calls on to the shared emulator, unless a rule applies.
#[derive(Clone)]
pub(crate) struct Gateway {
    emulator: Channel,
    rule: Arc<Mutex<Option<Rule>>>,
    /// Sets a rule for the next call of a method.
    hold: Arc<Mutex<Option<Hold>>>,
    pub(crate) port: u16,
}

impl Gateway {
    pub(crate) fn start() -> Self {
        let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).expect("a port");
        let port = incoming.local_addr().expect("an address").port();
        let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{}", shared().port()));
        let emulator = endpoint.expect("a URL").connect_lazy();
        let gateway = Self { emulator, rule: Arc::default(), hold: Arc::default(), port };
        let server = Server::builder().add_service(gateway.clone());
        tokio::spawn(server.serve_with_incoming(incoming));
        gateway
    }

    /// Sets a rule for this number of calls.
    pub(crate) fn set(&self, method: &'static str, code: Code, times: u32) {
        *self.rule.lock().unwrap() = Some(Rule { method, code, times, carried_out: false });
    }

    /// The server carries out the call, and the answer gets lost.
    pub(crate) fn lose_answer(&self, method: &'static str, code: Code) {
        *self.rule.lock().unwrap() = Some(Rule { method, code, times: 1, carried_out: true });
    }

    /// Makes the next call of this method wait. Returns the signal that it has arrived, and the signal that lets it
    /// go on.
    pub(crate) fn hold(&self, method: &'static str) -> (Arc<Notify>, Arc<Notify>) {
        let (there, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        *self.hold.lock().unwrap() = Some((method, Arc::clone(&there), Arc::clone(&go_on)));
        (there, go_on)
    }

    /// Runs an operation, and other work after its next call of this method has left it and before the call arrives.
    pub(crate) async fn meanwhile<T>(
        &self,
        method: &'static str,
        operation: impl Future<Output = T>,
        other: impl Future<Output = Result<()>>,
    ) -> Result<T> {
        let (there, go_on) = self.hold(method);
        let other = async {
            there.notified().await;
            let done = other.await;
            go_on.notify_one();
            done
        };
        let (answer, done) = tokio::join!(operation, other);
        done.map(|()| answer)
    }

    /// Removes the rule, and returns the number of calls that were left.
    pub(crate) fn clear(&self) -> u32 {
        self.rule.lock().unwrap().take().map_or(0, |rule| rule.times)
    }

    fn applies(&self, path: &str) -> Option<Rule> {
        let mut rule = self.rule.lock().unwrap();
        let rule = rule.as_mut().filter(|rule| rule.times > 0 && path.ends_with(rule.method))?;
        rule.times -= 1;
        Some(*rule)
    }
}

impl NamedService for Gateway {
    const NAME: &'static str = "google.firestore.v1.Firestore";
}

impl Service<Request<Body>> for Gateway {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Response<Body>, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let rule = self.applies(request.uri().path());
        // Names the document, like the service's messages.
        let refusal = |rule: Rule| {
            Status::new(rule.code, "document …/locks/secret-key, token secret-token").into_http()
        };
        if let Some(rule) = rule.filter(|rule| !rule.carried_out) {
            return Box::pin(std::future::ready(Ok(refusal(rule))));
        }
        let mut emulator = self.emulator.clone();
        let path = request.uri().path().to_owned();
        let hold = self.hold.lock().unwrap().take_if(|(method, ..)| path.ends_with(*method));
        Box::pin(async move {
            if let Some((_, there, go_on)) = hold {
                there.notify_one();
                go_on.notified().await;
            }
            let ready = std::future::poll_fn(|context| {
                <Channel as Service<Request<Body>>>::poll_ready(&mut emulator, context)
            });
            let answer = match ready.await {
                Ok(()) => emulator.call(request).await,
                Err(error) => Err(error),
            };
            let answer = answer.unwrap_or_else(|error| {
                // The library never shows a server's text, but a reader of a failed test needs it.
                eprintln!("the gateway to the emulator, {path}: {error:?}");
                Status::internal("no emulator").into_http()
            });
            Ok(rule.map_or(answer, refusal))
        })
    }
}
