//! Taking a lock, holding it, and giving it back.

mod acquire;
mod acquisition;
mod answers;
mod call;
mod cancellable;
mod config;
mod false_signals;
mod guard;
mod head;
mod lock;
mod locker;
mod observed;
mod outage;
mod pauses;
mod window;

pub use self::acquire::{TryAcquired, acquire, try_acquire};
pub use self::acquisition::{AcquisitionOptions, Backoff, Jitter};
pub use self::answers::unanswered;
pub use self::config::{AutoExtend, LockConfig, as_recipe};
pub use self::guard::{Held, LockGuard, Parting};
pub use self::head::open_watch;
pub use self::lock::{lock, run};
pub use self::locker::Locker;
pub use self::outage::RideOut;
pub use self::window::{TriedInWindow, release_as, try_acquire_in_window};
