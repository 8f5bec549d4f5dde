//! Control over requests that arrive late.

use std::fmt;
use std::time::Duration;

use syncguard_core::LockBackend;

/// A connection between a backend and its store that can hold a request back and deliver it later.
///
/// A request on the wire cannot be taken back: a packet is sent again, or a server is stopped and goes on, and the
/// store gets the request long after its sender has moved on. With a `RequestGate` an author shows that the store
/// refuses the request then. A proxy that forwards TCP connections can implement it, and so can a store in the
/// process with a queue of requests.
///
/// ```
/// use std::sync::Mutex;
/// use syncguard_conformance::RequestGate;
///
/// /// The requests that a store in the process has not carried out yet.
/// #[derive(Default)]
/// struct Gate(Mutex<State>);
///
/// #[derive(Default)]
/// struct State {
///     hold_next: bool,
///     held: Vec<KeptBack>,
/// }
///
/// /// A request: the sender that waits for its answer, and the work to do.
/// struct KeptBack {
///     sender: Option<tokio::sync::oneshot::Sender<()>>,
///     carry_out: Box<dyn FnOnce() + Send>,
/// }
///
/// impl RequestGate for Gate {
///     fn hold(&self) {
///         self.0.lock().unwrap().hold_next = true;
///     }
///
///     fn holds(&self) -> bool {
///         !self.0.lock().unwrap().held.is_empty()
///     }
///
///     fn cut(&self) {
///         // The backend sees the end of the channel as the end of a connection.
///         for held in &mut self.0.lock().unwrap().held {
///             held.sender = None;
///         }
///     }
///
///     fn deliver(&self) {
///         let held = std::mem::take(&mut self.0.lock().unwrap().held);
///         held.into_iter().for_each(|held| (held.carry_out)());
///     }
/// }
/// ```
pub trait RequestGate: Send + Sync + 'static {
    /// Holds back the next request that the backend sends over a connection that is open now, and all later requests
    /// on that connection. Connections that are made later are not held.
    fn hold(&self);

    /// Returns true if a request is held back now.
    fn holds(&self) -> bool;

    /// Ends the connections with held requests, on the sender's side only: the backend sees that they are gone and
    /// may make new ones, and the requests stay held back.
    fn cut(&self);

    /// Gives the store the held requests, in the order in which they were sent, and ends the hold. The store carries
    /// them out soon after.
    fn deliver(&self);
}

/// A backend behind a [`RequestGate`].
#[non_exhaustive]
pub struct Late<B> {
    /// A handle for this case only. It need not be connected yet.
    pub backend: B,
    /// How long after it was sent a request may still be carried out: the backend's longest time limit, and the error
    /// of its deadlines. The cases wait for this time, so set short limits of one or two seconds.
    pub bound: Duration,
    /// The gate of this backend.
    pub gate: Box<dyn RequestGate>,
}

impl<B: LockBackend> Late<B> {
    /// A backend whose requests are carried out within `bound`, and its gate.
    pub fn new(backend: B, bound: Duration, gate: impl RequestGate) -> Self {
        Self { backend, bound, gate: Box::new(gate) }
    }

    /// The same gate with a wrapped backend.
    pub fn map<D: LockBackend>(self, wrap: impl FnOnce(B) -> D) -> Late<D> {
        Late { backend: wrap(self.backend), bound: self.bound, gate: self.gate }
    }
}

impl<B> fmt::Debug for Late<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Late").field("bound", &self.bound).finish_non_exhaustive()
    }
}
