//! The order in which the addresses of a name are tried.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use gcloud_sdk::tonic::codegen::Service;
use hyper_util::client::legacy::connect::dns::Name;

use crate::config::NameServer;

/// Looks names up. Each attempt to connect begins with another address: one that accepts connections and never answers
/// must not be the first for ever.
#[derive(Clone, Default)]
pub(crate) struct Turns {
    attempts: Arc<AtomicUsize>,
    name_server: Option<Arc<NameServer>>,
}

impl Turns {
    pub(crate) fn new(name_server: Option<Arc<NameServer>>) -> Self {
        Self { name_server, ..Self::default() }
    }

    fn rotate(&self, mut found: Vec<SocketAddr>) -> Vec<SocketAddr> {
        let turn = self.attempts.fetch_add(1, Ordering::Relaxed);
        if !found.is_empty() {
            let first = turn % found.len();
            found.rotate_left(first);
        }
        found
    }
}

impl Service<Name> for Turns {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let turns = self.clone();
        Box::pin(async move {
            let found = match &turns.name_server {
                Some(known) => known(name.as_str()).into_iter().map(|ip| (ip, 0).into()).collect(),
                None => tokio::net::lookup_host((name.as_str(), 0)).await?.collect(),
            };
            Ok(turns.rotate(found).into_iter())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_attempt_begins_with_another_address() {
        let turns = Turns::default();
        let found = || (1..=3).map(|last| SocketAddr::from(([127, 0, 0, last], 0))).collect();
        let firsts: Vec<_> = (0..4).map(|_| turns.rotate(found())[0].ip().to_string()).collect();
        assert_eq!(firsts, ["127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.1"]);
        assert_eq!(turns.rotate(Vec::new()), []);
    }
}
