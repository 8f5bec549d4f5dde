//! All subcommands but `run`.

pub(crate) mod doctor;
#[cfg(feature = "generate")]
pub(crate) mod generate;
pub(crate) mod release;
pub(crate) mod status;
