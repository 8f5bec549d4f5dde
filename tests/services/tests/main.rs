//! The servers that the tests start.

mod names;
mod orphans;
mod servers;
