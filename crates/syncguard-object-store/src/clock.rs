//! The store's time: from the `Date` of answers, else from the last change of an object that this backend has just written.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use object_store::{Extensions, ObjectMeta};
use syncguard_core::authoring::{Clock, SentAt, ServerTime, StoreClock, StoreTime};
use tokio::time::Instant;

/// The unit of a `Date`, and of times that may be one, in microseconds.
const SECOND: i64 = 1_000_000;

/// Goes along with a request for an object, and hears the time of the answer. The connector also carries requests for
/// credentials, to servers with other clocks.
#[cfg(any(feature = "aws", feature = "azure", feature = "gcp"))]
#[derive(Clone)]
pub(crate) struct Listens(pub(crate) Arc<Ear>);

/// The knowledge of the store's time.
pub(crate) struct Ear {
    pub(crate) clock: StoreClock,
    /// True once an answer had a `Date` that could be seen.
    has_dates: AtomicBool,
    /// When the last measurement in the background began.
    began: Mutex<Option<Instant>>,
}

impl Ear {
    /// The bounds of a clock widen by 2 ms a second.
    const EVERY: Duration = Duration::from_secs(60);
    /// The most probes of a measurement: each at best halves what is unknown.
    pub(crate) const PROBES: u32 = 9;
    /// Bounds that are this near to each other are good enough.
    pub(crate) const EXACT: Duration = Duration::from_millis(60);
    /// From this width on, as after ten minutes without use, an operation asks again.
    const STALE: Duration = Duration::from_secs(3);

    /// `has_clock` is false in tests that count or hold requests: then this machine's clock is the store's.
    pub(crate) fn new(wall: Clock, has_clock: bool) -> Self {
        Self {
            clock: StoreClock::of(usize::from(has_clock), wall),
            has_dates: AtomicBool::new(false),
            began: Mutex::default(),
        }
    }

    /// The extensions of a request whose answer tells the time.
    #[cfg(any(feature = "aws", feature = "azure", feature = "gcp"))]
    pub(crate) fn listens(self: &Arc<Self>) -> Extensions {
        let mut extensions = Extensions::new();
        extensions.insert(Listens(Arc::clone(self)));
        extensions
    }

    /// Without a connector of this library, no answer can be seen.
    #[cfg(not(any(feature = "aws", feature = "azure", feature = "gcp")))]
    #[expect(clippy::unused_self, reason = "with a store's feature it is used")]
    pub(crate) fn listens(self: &Arc<Self>) -> Extensions {
        Extensions::new()
    }

    /// True if answers tell the time, so that any request will do to learn it.
    pub(crate) fn has_dates(&self) -> bool {
        self.has_dates.load(Ordering::Relaxed)
    }

    /// Hears the `Date` of an answer that has just come, in seconds.
    #[cfg(any(feature = "aws", feature = "azure", feature = "gcp"))]
    pub(crate) fn hears_date(&self, sent: SentAt, unix_seconds: i64) {
        self.has_dates.store(true, Ordering::Relaxed);
        let unix_micros = unix_seconds.saturating_mul(SECOND);
        self.clock.hears(0, sent, ServerTime { unix_micros, unit_micros: SECOND });
    }

    /// Hears when an object was changed. The change was sent at `sent`, and the object was read just now.
    pub(crate) fn hears_change(&self, sent: SentAt, meta: &ObjectMeta) {
        let changed = meta.last_modified;
        // Whole seconds, as in the header `Last-Modified`, unless the time shows otherwise.
        let unit_micros = match changed.timestamp_subsec_nanos() {
            0 => SECOND,
            nanos if nanos % 1_000_000 == 0 => 1000,
            _ => 1,
        };
        let unix_micros = changed.timestamp_micros();
        self.clock.hears(0, sent, ServerTime { unix_micros, unit_micros });
    }

    /// True if the time is so well known that an operation goes by it.
    pub(crate) fn is_known(time: StoreTime) -> bool {
        time.is_told && time.width() < Self::STALE
    }

    /// True if a measurement in the background is due, which then counts as begun.
    pub(crate) fn is_due(&self) -> bool {
        let now = Instant::now();
        let mut began = self.began.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = began.is_none_or(|began| now.duration_since(began) >= Self::EVERY);
        if is_due {
            *began = Some(now);
        }
        is_due
    }

    /// How far the bounds are apart.
    pub(crate) fn width(&self) -> Duration {
        self.clock.shown_by(0).map_or(Duration::MAX, StoreTime::width)
    }

    /// How long until the store's second changes, by the middle of the bounds: an answer to a request of that moment halves
    /// what is unknown.
    pub(crate) fn until_the_second(&self) -> Duration {
        let middle = self
            .clock
            .shown_by(0)
            .map_or(0, |shown| u64::midpoint(shown.earliest.as_millis(), shown.latest.as_millis()));
        Duration::from_millis(1000 - middle % 1000)
    }
}
