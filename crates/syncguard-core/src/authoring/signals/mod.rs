//! Signals of releases by other processes.
//!
//! A [`SignalHub`] does the work that is the same on every store. It opens a session for the first watch and closes the
//! session after the last watch. Watches of the same record share a subscription, and each watch is handed out after the
//! store has confirmed it. The hub notices a session that is stuck. After a session that failed it rests, longer each
//! time. It logs once that signals are not heard, and once that they are heard again.
//!
//! An author writes one session: an async function that connects, and then carries out the changes of the hub's
//! [`Subscriptions`] until the connection is lost or the subscriptions end. The guide's page for authors has an example.
//!
//! A signal is a hint: it may be lost, late or doubled, which costs only time.

mod hub;
mod registry;
mod session;
mod terms;

pub use self::hub::SignalHub;
pub use self::session::Subscriptions;
pub use self::terms::{Changes, LockSeen, SignalEnd, SignalLimits};
