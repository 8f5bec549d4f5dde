//! What needs a seam of a backend, which users do not have. `cargo xtask test --shipped` leaves out this module, and runs all
//! other tests on what users get.
//!
//! | tests | why a user's backend cannot do it |
//! |---|---|
//! | `etcd_clock`, `firestore_clock` | a clock of one process is wrong, is set, or stands still: all tests share the machine's |
//! | `etcd::conformance` | its cases judge the end of a lock to the millisecond, and the members' clocks are known less well |
//! | `simulated` | the simulated servers of the simulation answer calls instead of a server |
//! | `sqlite_late` | a process keeps a write back whose caller is gone: no file does, and no other process can |
//! | `fuzz_corpus` | the readers of records get any bytes; a store gives them only what it can hold |
//! | `long` | a name leads to two addresses: the machine's names are not for tests to change |

mod etcd_clock;
mod firestore_clock;
mod fuzz_corpus;
mod long;
pub(crate) mod simulated;
mod sqlite_late;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

/// A clock of a client that can be set. Clones are the same clock.
#[derive(Clone, Default)]
struct Clock(Arc<AtomicI64>);

impl Clock {
    fn ahead(millis: i64) -> Self {
        Self(Arc::new(AtomicI64::new(millis)))
    }

    /// Puts it this many milliseconds ahead of the machine's.
    fn set(&self, ahead: i64) {
        self.0.store(ahead, Ordering::SeqCst);
    }

    fn now(&self) -> SystemTime {
        let ahead = self.0.load(Ordering::SeqCst);
        let by = Duration::from_millis(ahead.unsigned_abs());
        if ahead < 0 { SystemTime::now() - by } else { SystemTime::now() + by }
    }
}
