//! What a store promises, what it is asked, and what it answers.

mod backend;
mod capabilities;
pub(crate) mod clean_up;
mod client_state;
mod dyn_backend;
pub(crate) mod episode;
mod error;
mod forward;
mod info;
mod inventory;
mod inventory_handle;
mod inventory_page;
mod inventory_pages;
mod inventory_request;
mod key_watch;
mod liveness;
mod observer;
mod release_error;
mod request;
mod response;
mod signal_status;

pub use self::backend::LockBackend;
pub use self::capabilities::{BackendCapabilities, TimeAuthority};
pub use self::clean_up::CleanUp;
pub use self::client_state::ClientState;
pub use self::dyn_backend::DynBackend;
pub use self::error::{ErrorCode, LockError};
pub use self::info::{LockInfo, LockInfoDebug};
pub use self::inventory::LockInventory;
pub use self::inventory_handle::Inventory;
pub use self::inventory_page::{CounterPage, Cursor, FenceCounter, LockPage};
pub use self::inventory_pages::{CounterPages, LockPages};
pub use self::inventory_request::{CounterRequest, ListRequest, RaiseRequest};
pub use self::key_watch::{KeySignal, KeyWatch};
pub use self::liveness::{TIME_TOLERANCE, is_live};
pub use self::observer::{
    AcquisitionEnd, AcquisitionObserved, Began, HoldObserved, LockObserver, Observation,
};
pub use self::release_error::{ReleaseErrorContext, ReleaseErrorHandler, ReleaseSource};
pub use self::request::{
    AcquireRequest, ExtendRequest, IsLockedRequest, LookupBy, LookupRequest, ReleaseRequest,
    WatchRequest,
};
pub use self::response::{
    AcquireResult, Acquired, Contention, ExtendResult, NotHeld, ReleaseResult,
};
pub use self::signal_status::SignalStatus;
