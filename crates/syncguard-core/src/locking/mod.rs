//! Taking a lock, holding it, and giving it back.

mod acquire;
mod acquisition;
mod attempt;
mod cancellable;
mod config;
mod guard;
mod head;
mod listening;
mod lock;
mod locker;
mod observed;
mod outage;
mod queue;
mod retry;
mod wait;

pub use self::acquire::{TryAcquired, acquire, try_acquire};
pub use self::acquisition::{AcquisitionOptions, Backoff, Jitter};
pub use self::config::{AutoExtend, LockConfig};
pub use self::guard::{Held, LockGuard, LossReason};
pub use self::lock::{lock, lock_flat, lock_send};
pub use self::locker::Locker;
pub(crate) use self::queue::WaitQueues;
