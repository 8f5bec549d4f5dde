//! The memory backend, as its users see it.

mod connect;
mod expired;
mod inventory;
mod test_store;
