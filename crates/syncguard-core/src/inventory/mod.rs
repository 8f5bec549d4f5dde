//! Lists of all locks and fence counters of a store, for operators. A backend need not have them.
//!
//! [`LockBackend::inventory`](crate::LockBackend::inventory) gives an [`Inventory`]:
//!
//! ```
//! use syncguard_core::inventory::ListRequest;
//! use syncguard_core::{LockBackend, LockError};
//!
//! async fn print_locks<B: LockBackend>(backend: &B) -> Result<(), LockError> {
//!     let Some(inventory) = backend.inventory() else { return Ok(()) };
//!     let mut next = Some(ListRequest::new().with_prefix("job:"));
//!     while let Some(request) = next {
//!         let page = inventory.list_locks(request).await?;
//!         for lock in page.entries {
//!             println!("{:?} until {}", lock.key.hash_id(), lock.expires_at);
//!         }
//!         next = page.next;
//!     }
//!     Ok(())
//! }
//! ```
//!
//! # What a listing promises
//!
//! - A lock that is live from before the request for the first page until after the answer with the last page is
//!   listed exactly once.
//! - No key is listed twice, whatever locks come and go meanwhile.
//! - A lock that is taken, released or expires meanwhile may be listed or not. Each entry was live when its
//!   page was read.
//! - The store fixes the order: the order of the keys' bytes, unless the backend's documentation names another.
//!
//! The same holds for counters. Counters are never deleted, so each counter that exists at the first page is
//! listed.
//!
//! A page is bounded work for the store; the documentation of the backend says what a page costs.

pub(crate) mod handle;
pub(crate) mod page;
mod prefix;
pub(crate) mod request;

pub use self::handle::Inventory;
pub use self::page::{FenceCounter, Page};
pub use self::request::ListRequest;
