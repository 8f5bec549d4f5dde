//! The net catches planted leaks: in every place, in every form, from both logging crates.

use base64ct::{Base64Unpadded, Base64UrlUnpadded, Encoding as _};
use syncguard_core::contract::AcquireRequest;
use syncguard_core::{ErrorCode, LockBackend as _, LockError, LockId, Ttl};
use syncguard_memory::MemoryBackend;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::Registry;

use crate::net::Net;
use crate::watched::{read_error, watched};

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

/// The secrets are known before the backend sees the request, so that one line anywhere fails the whole test.
#[tokio::test]
async fn what_a_backend_leaks_of_a_request_is_caught() {
    let net = Net::default();
    let (key, lock_id) = ("payment:of-mrs-smith-4711", LockId::generate().unwrap());
    let request = AcquireRequest::new(key, Ttl::DEFAULT).unwrap().with_lock_id(lock_id);
    let acquired = watched(&net, MemoryBackend::new()).acquire(request).await;
    assert!(acquired.unwrap().is_acquired());
    assert!(net.leaks().is_empty(), "{:?}", net.leaks());
    tracing::subscriber::with_default(Registry::default().with(net.clone()), || {
        tracing::trace!(target: "driver", "SET {key}");
        tracing::trace!(target: "other", lock_id = lock_id.expose());
    });
    let leaks = net.leaks();
    assert!(leaks.len() == 2 && leaks.keys().any(|at| at.starts_with("driver:")), "{leaks:?}");
}
