//! The subcommands other than `run`.

pub(crate) mod acquire;
pub(crate) mod copy_fences;
pub(crate) mod doctor;
pub(crate) mod export;
pub(crate) mod extend;
pub(crate) mod fence;
#[cfg(feature = "generate")]
pub(crate) mod generate;
mod listing;
mod lock_key;
pub(crate) mod ls;
pub(crate) mod parts;
mod recipe;
mod record_file;
pub(crate) mod release;
mod saved_lock;
pub(crate) mod setup;
pub(crate) mod status;
#[cfg(feature = "ticks")]
pub(crate) mod tick;
pub(crate) mod watch;
