//! The contract of a backend: its requests, its answers and its capabilities.
//!
//! | items | purpose |
//! |---|---|
//! | [`AcquireRequest`], [`ReleaseRequest`], [`ExtendRequest`], [`IsLockedRequest`], [`LookupRequest`], [`WatchRequest`] | the operations of a [`LockBackend`](crate::LockBackend), for programs that call it themselves and for authors |
//! | [`AcquireResult`], [`Acquired`] | the answer to an acquire; the other answers are in the crate's root |
//! | [`BackendCapabilities`], [`FenceToken`] | the capabilities of a backend |
//! | [`Holder`] | the holder of a lock, described for people |
//! | [`KeyWatch`], [`SignalStatus`] | signals of releases |
//! | [`TIME_TOLERANCE`], [`TIME_STEP`], [`is_live`] | how long a lock is held |

pub(crate) mod capabilities;
pub(crate) mod clock_drift;
pub(crate) mod fence_window;
pub(crate) mod health;
pub(crate) mod info;
pub(crate) mod key_watch;
pub(crate) mod liveness;
pub(crate) mod loss_reason;
pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod signal_status;

pub use self::capabilities::{BackendCapabilities, TimeAuthority};
#[doc(hidden)]
pub use self::health::Health;
pub use self::key_watch::{KeySignal, KeyWatch};
pub use self::liveness::{TIME_STEP, TIME_TOLERANCE, is_live};
pub use self::request::{
    AcquireRequest, ExtendRequest, IsLockedRequest, LookupBy, LookupRequest, ReleaseRequest,
    WatchRequest,
};
pub use self::response::{AcquireResult, Acquired};
pub use self::signal_status::SignalStatus;

// The public paths of types that are defined in other folders. Inside the crate they are imported from there.
pub use crate::value::{FenceToken, HashId, Holder, NoFence};
