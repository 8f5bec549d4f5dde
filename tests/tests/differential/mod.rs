//! The stores, and the simulated servers, beside each other: where they answer alike, and the allowed differences.

mod differences;
mod extremes;
mod later_version;
mod random;
pub(crate) mod stores;
