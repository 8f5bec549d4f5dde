//! The channel to Firestore, and when another one takes its place.
//!
//! A channel opens a new connection only after it has noticed that the old one is lost, and pings take 40 s for that. So
//! a call without an answer, while nothing else was heard, is enough for a new channel.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use syncguard_core::authoring::LookLimit;
use tokio::sync::watch;

use crate::service::{Service, ServiceMaker};

/// The channel that the clones of a backend share.
pub(crate) struct Channel {
    current: watch::Sender<Current>,
    /// `None`: the client is the program's.
    maker: Option<ServiceMaker>,
    looks: LookLimit,
    /// How many answers have come.
    heard: AtomicU64,
}

/// The client of the current channel, and the number of that channel.
#[derive(Clone)]
pub(crate) struct Current {
    pub(crate) firestore: Service,
    number: u64,
}

/// The finding of a call about its channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// Nothing was heard for the whole call, or this server serves no calls: another channel may lead elsewhere.
    LookElsewhere,
    /// The tasks of the channel have ended with their runtime.
    RuntimeEnded,
}

/// A client for one call.
pub(crate) struct Loan {
    pub(crate) firestore: Service,
    number: u64,
    heard: u64,
}

impl Channel {
    pub(crate) fn new(firestore: Service, maker: Option<ServiceMaker>) -> Arc<Self> {
        Arc::new(Self {
            current: watch::Sender::new(Current { firestore, number: 0 }),
            maker,
            looks: LookLimit::new(),
            heard: AtomicU64::new(0),
        })
    }

    pub(crate) fn lend(&self) -> Loan {
        let Current { firestore, number } = self.current.borrow().clone();
        Loan { firestore, number, heard: self.heard.load(Ordering::Relaxed) }
    }

    /// Notes an answer of the server.
    pub(crate) fn hears(&self) {
        self.heard.fetch_add(1, Ordering::Relaxed);
    }

    /// True if no call has got an answer since this loan.
    pub(crate) fn is_silent(&self, loan: &Loan) -> bool {
        self.heard.load(Ordering::Relaxed) == loan.heard
    }

    /// The current client, and the news of others that take its place.
    pub(crate) fn follow(&self) -> watch::Receiver<Current> {
        self.current.subscribe()
    }

    /// True if the channel can be replaced.
    pub(crate) fn is_ours(&self) -> bool {
        self.maker.is_some()
    }

    /// Replaces the channel of this loan in the runtime of the caller, at most once a second unless its runtime has
    /// ended. Calls on the old channel go on.
    pub(crate) async fn replace(&self, loan: &Loan, finding: Finding) {
        let Some(maker) = &self.maker else { return };
        let is_current = self.current.borrow().number == loan.number;
        if !is_current || finding == Finding::LookElsewhere && !self.looks.permits() {
            return;
        }
        match maker.make().await {
            Ok(firestore) => {
                self.current.send_if_modified(|current| {
                    let is_current = current.number == loan.number;
                    if is_current {
                        *current = Current { firestore, number: loan.number + 1 };
                    }
                    is_current
                });
            }
            Err(error) => tracing::debug!(%error, "no new channel to Firestore"),
        }
    }
}
