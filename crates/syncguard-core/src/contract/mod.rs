//! The contract of a backend: what it is asked, what it answers, and what it says of itself.
//!
//! | what | for |
//! |---|---|
//! | [`AcquireRequest`], [`ReleaseRequest`], [`ExtendRequest`], [`IsLockedRequest`], [`LookupRequest`], [`WatchRequest`] | the operations of a [`LockBackend`](crate::LockBackend), for those who call it themselves and those who write one |
//! | [`AcquireResult`], [`Acquired`] | the answer to an acquire; the others are in the crate's root |
//! | [`BackendCapabilities`], [`FenceToken`] | what a backend can do |
//! | [`Holder`] | who holds a lock, for people |
//! | [`ClientState`], [`CleanUp`], [`ReleaseErrorHandler`] | what all clones of a backend share |
//! | [`KeyWatch`], [`SignalStatus`] | signals of releases |
//! | [`TIME_TOLERANCE`], [`is_live`] | until when a lock is held |

pub(crate) mod backend;
mod capabilities;
pub(crate) mod clean_up;
mod client_state;
pub(crate) mod dyn_backend;
pub(crate) mod episode;
pub(crate) mod error;
mod forward;
pub(crate) mod info;
mod key_watch;
mod liveness;
mod release_error;
mod request;
pub(crate) mod response;
mod signal_status;

pub use self::capabilities::{BackendCapabilities, TimeAuthority};
pub use self::clean_up::CleanUp;
pub use self::client_state::ClientState;
pub use self::info::LockInfoDebug;
pub use self::key_watch::{KeySignal, KeyWatch};
pub use self::liveness::{TIME_TOLERANCE, is_live};
pub use self::release_error::{ReleaseErrorContext, ReleaseErrorHandler, ReleaseSource};
pub use self::request::{
    AcquireRequest, ExtendRequest, IsLockedRequest, LookupBy, LookupRequest, ReleaseRequest,
    WatchRequest,
};
pub use self::response::{AcquireResult, Acquired};
pub use self::signal_status::SignalStatus;
pub use crate::value::{FenceToken, HashId, Holder, NoFence};
