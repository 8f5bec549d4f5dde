//! The trait of a backend, and what follows from it for each backend.

mod dyn_backend;
mod forward;
mod health;
mod lock_backend;
mod lock_inventory;

pub use self::dyn_backend::DynBackend;
pub use self::health::reported_health;
pub use self::lock_backend::{LockBackend, basic_health};
pub use self::lock_inventory::LockInventory;
