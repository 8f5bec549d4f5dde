//! The memory backend, as its users see it.

mod connect;
mod holders;
mod inventory;
mod model;
