//! syncguard-postgres against real servers.

mod check_fence;
mod cleanup;
mod conformance;
mod crashes;
mod dropped;
mod durability;
mod errors;
mod faults;
mod fenced;
mod interop;
mod inventory;
mod labels;
mod late;
mod late_sessions;
mod mixed_fleet;
mod options;
mod pooler;
mod round_trips;
mod schema;
mod search_path;
mod session_settings;
pub(crate) mod support;
pub(crate) mod tls;
mod typescript;
mod waiting;
mod watch;
