//! The servers that the tests start.

mod orphans;
mod servers;
