//! Requests that arrive late, on purpose.

use std::fmt;
use std::time::Duration;

use syncguard_core::LockBackend;

/// A line between a backend and its store that can keep a request back and deliver it later.
///
/// A request on the wire cannot be taken back: a packet is sent once more, a server is stopped and goes
/// on, and the request is carried out long after its sender has moved on. With this an author shows
/// that his store refuses it then. A proxy that forwards TCP connections can do it, and so can a store
/// in the process that has a queue of requests.
///
/// ```
/// use std::sync::Mutex;
/// use syncguard_conformance::LateLine;
///
/// /// What a store in the process has not carried out yet.
/// #[derive(Default)]
/// struct Line(Mutex<State>);
///
/// #[derive(Default)]
/// struct State {
///     hold_next: bool,
///     held: Vec<Held>,
/// }
///
/// /// One request: whoever waits for its answer, and what is to be done.
/// struct Held {
///     sender: Option<tokio::sync::oneshot::Sender<()>>,
///     carry_out: Box<dyn FnOnce() + Send>,
/// }
///
/// impl LateLine for Line {
///     fn hold(&self) {
///         self.0.lock().unwrap().hold_next = true;
///     }
///
///     fn holds(&self) -> bool {
///         !self.0.lock().unwrap().held.is_empty()
///     }
///
///     fn cut(&self) {
///         // The backend sees that its sender is gone, as it sees the end of a connection.
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
pub trait LateLine: Send + Sync + 'static {
    /// Keeps back the next request that the backend sends over a connection that is open now, and what
    /// it sends behind that over the same connection. Connections made later are not held.
    fn hold(&self);

    /// Whether something is kept back now.
    fn holds(&self) -> bool;

    /// Ends the connections of which something is kept back, on their sender's side alone: the backend
    /// sees that they are gone, may make new ones, and what is kept back stays.
    fn cut(&self);

    /// Gives the store what is kept back, in the order in which it was sent, and lifts the hold. The
    /// store carries it out soon after.
    fn deliver(&self);
}

/// A backend behind a [`LateLine`].
#[non_exhaustive]
pub struct Late<B> {
    /// A handle that nobody else has. It need not be connected yet.
    pub backend: B,
    /// How long after it was sent a request may still be carried out, at the most: the backend's
    /// longest time limit, and what its deadlines are too generous. The cases wait for it, so set
    /// short limits: a second or two.
    pub bound: Duration,
    /// Its line.
    pub line: Box<dyn LateLine>,
}

impl<B: LockBackend> Late<B> {
    /// A backend whose requests are carried out within `bound`, and its line.
    pub fn new(backend: B, bound: Duration, line: impl LateLine) -> Self {
        Self { backend, bound, line: Box::new(line) }
    }

    /// The same line with the backend in another wrapping.
    pub fn map<D: LockBackend>(self, wrap: impl FnOnce(B) -> D) -> Late<D> {
        Late { backend: wrap(self.backend), bound: self.bound, line: self.line }
    }
}

impl<B> fmt::Debug for Late<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Late").field("bound", &self.bound).finish_non_exhaustive()
    }
}
