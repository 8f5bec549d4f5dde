//! The state that the clones of a backend share in this process.

pub(crate) mod clean_up;
mod client_state;
pub(crate) mod fence_memory;
pub(crate) mod outage_log;
pub(crate) mod queue;
mod release_error;

pub use self::client_state::ClientState;
pub use self::release_error::{ReleaseErrorContext, ReleaseErrorHandler, ReleaseSource};
