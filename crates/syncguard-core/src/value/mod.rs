//! The values of a lock: its key, id, fence, holder and times, and the error that can carry them.

mod constructors;
mod error;
mod fence;
mod hash;
mod holder;
mod holder_text;
mod key;
mod lock_id;
mod normalize;
pub(crate) mod random;
#[cfg(feature = "serde")]
mod serde_form;
mod timestamp;
mod ttl;

pub use self::constructors::IntoKey;
pub use self::error::{ErrorCode, LockError};
pub use self::fence::{Fence, FenceToken, NoFence};
pub use self::hash::{HashId, hash_key, hash_key_triple32};
pub use self::holder::Holder;
pub(crate) use self::holder::{LABEL, NOTE, is_visible};
pub use self::key::Key;
pub use self::lock_id::LockId;
pub(crate) use self::normalize::nfc;
pub use self::timestamp::Timestamp;
pub use self::ttl::{IntoTtl, Ttl};
