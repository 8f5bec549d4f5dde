//! What a lock is named, timed and counted by.

mod fence;
mod hash;
mod holder;
mod key;
mod lock_id;
mod normalize;
pub(crate) mod random;
#[cfg(feature = "serde")]
mod serde_form;
mod timestamp;
mod ttl;

pub use self::fence::{Fence, FenceToken, NoFence};
pub use self::hash::{HashId, hash_key, hash_key_triple32};
pub use self::holder::Holder;
pub use self::key::{IntoKey, Key};
pub use self::lock_id::LockId;
pub(crate) use self::normalize::nfc;
pub use self::timestamp::Timestamp;
pub use self::ttl::{IntoTtl, Ttl};
