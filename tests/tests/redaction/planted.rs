//! The net catches planted leaks: in every place, in every form, from both logging crates.

use std::sync::Arc;

use base64ct::{Base64Unpadded, Base64UrlUnpadded, Encoding as _};
use syncguard_core::{ErrorCode, Key, LockError, LockId};
use tracing::instrument::WithSubscriber as _;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::Registry;

use crate::net::Net;
use crate::watched::read_error;

/// The forms of a leak.
type Leak = fn(&Net, &str);

const LEAKS: &[(&str, Leak)] = &[
    ("a message", |_, secret| tracing::trace!("found {secret}")),
    ("a field", |_, secret| tracing::warn!(secret, "found it")),
    ("a field by its Debug", |_, secret| tracing::debug!(found = ?Some(secret.to_owned()))),
    ("escaped", |_, secret| tracing::trace!("found \\\"{}\\\"", secret.escape_debug())),
    ("a list of bytes", |_, secret| tracing::trace!(found = ?secret.as_bytes())),
    ("hex", |_, secret| {
        let hex: Vec<String> = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
        tracing::trace!("found {}", hex.concat());
    }),
    ("base64", |_, secret| {
        tracing::trace!("found {}", Base64Unpadded::encode_string(secret.as_bytes()));
    }),
    ("base64 of more", |_, secret| {
        let more = format!("locks/{secret}/fence");
        tracing::trace!("found {}", Base64UrlUnpadded::encode_string(more.as_bytes()));
    }),
    ("a part of it", |_, secret| tracing::trace!("found {}…", &secret[2..20])),
    ("in the midst of others", |_, secret| tracing::trace!("/a/b-{secret}_c?d={secret}")),
    ("a span", |_, secret| drop(tracing::trace_span!("finding", secret))),
    ("a field that a span gets later", |_, secret| {
        let span = tracing::trace_span!("finding", secret = tracing::field::Empty);
        span.record("secret", secret);
    }),
    ("the log crate", |_, secret| log::trace!("found {secret}")),
    ("the log crate, with a target", |_, secret| log::debug!(target: "x", "found {secret:?}")),
    ("an error", |net, secret| {
        read_error(net, &LockError::new(ErrorCode::Internal, format!("no {secret}")));
    }),
    ("the cause of an error", |net, secret| {
        let cause = std::io::Error::other(secret.to_owned());
        read_error(net, &LockError::new(ErrorCode::Internal, "no").with_source(&cause));
    }),
];

#[test]
fn every_planted_leak_is_caught() {
    // The logger that forwards lines of the `log` crate.
    let _ = Net::global();
    for (name, leak) in LEAKS {
        let (net, lock_id) = (Net::default(), LockId::generate().unwrap());
        let texts = [lock_id.expose().to_owned(), format!("payment:{}:\n'x'", lock_id.expose())];
        for text in texts {
            let net = net.clone();
            net.add(&text);
            tracing::subscriber::with_default(Registry::default().with(net.clone()), || {
                leak(&net, lock_id.expose());
            });
            assert!(!net.leaks().is_empty(), "{name} got through");
        }
    }
}

#[test]
fn what_may_be_said_is_not_caught() {
    let net = Net::default();
    let (key, lock_id) =
        (Key::new("payment:of-mrs-smith-4711").unwrap(), LockId::generate().unwrap());
    net.add(key.expose());
    net.add(lock_id.expose());
    tracing::subscriber::with_default(Registry::default().with(net.clone()), || {
        tracing::trace!(?key, ?lock_id, hash = %key.hash_id(), "found {:?}", lock_id.hash_id());
        tracing::trace!("{}", "-".repeat(100));
        let error = LockError::new(ErrorCode::Internal, "no").with_key(&key).with_lock_id(lock_id);
        read_error(&net, &error);
    });
    assert!(net.leaks().is_empty(), "{:?}", net.leaks());
    assert!(net.lines_from("redaction") > 0);
}

/// A backend with one leak anywhere fails the whole test.
#[tokio::test]
async fn a_backend_that_leaks_is_caught() {
    use syncguard_core::LockBackend as _;
    use syncguard_core::contract::AcquireRequest;

    let net = Net::default();
    let subscriber = Arc::new(Registry::default().with(net.clone()));
    let backend =
        crate::watched::watched(&net, leaky::Leaky(syncguard_memory::MemoryBackend::new()));
    let request = AcquireRequest::new("payment:of-mrs-smith-4711", syncguard_core::Ttl::DEFAULT);
    let acquired = backend.acquire(request.unwrap()).with_subscriber(subscriber).await;
    assert!(acquired.unwrap().is_acquired());
    let leaks = net.leaks();
    assert_eq!(leaks.len(), 1, "{leaks:?}");
    assert!(leaks.keys().all(|place| place.starts_with("redaction::planted::leaky")), "{leaks:?}");
}

mod leaky {
    use syncguard_core::contract::{AcquireRequest, AcquireResult};
    use syncguard_core::{Fence, LockBackend, LockError, forward};
    use syncguard_memory::MemoryBackend;

    #[derive(Clone)]
    pub(super) struct Leaky(pub(super) MemoryBackend);

    impl LockBackend for Leaky {
        type Fence = Fence;

        async fn acquire(&self, request: AcquireRequest) -> Result<AcquireResult, LockError> {
            tracing::trace!(key = request.key.expose(), "taking it");
            self.0.acquire(request).await
        }

        forward!(0: release, extend, is_locked, lookup, capabilities, client_state);
    }
}
