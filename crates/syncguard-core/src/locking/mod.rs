//! Taking a lock, holding it, and giving it back.

mod acquire;
mod acquisition;
mod attempt;
mod config;
mod contend;
mod gap;
mod guard;
mod lines;
mod lock;
mod locker;
mod observed;
mod outage;
mod retry;
mod stand;

pub use self::acquire::{TryAcquired, acquire, try_acquire};
pub use self::acquisition::{AcquisitionOptions, Backoff, Jitter};
pub use self::config::{AutoExtend, LockConfig};
pub use self::guard::{Held, LockGuard, LossReason};
pub(crate) use self::lines::Lines;
pub use self::lock::{lock, lock_flat, lock_send};
pub use self::locker::Locker;
