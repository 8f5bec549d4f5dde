//! All subcommands but `run`.

#[cfg(feature = "generate")]
pub(crate) mod generate;
pub(crate) mod release;
pub(crate) mod status;
