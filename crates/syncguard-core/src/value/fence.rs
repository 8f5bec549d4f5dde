//! Fencing tokens.

use std::fmt;
use std::hash::Hash;
use std::str::FromStr;

use super::error::LockError;
use super::key::Key;

/// A fencing token: a number that grows with every acquisition of a key and never repeats.
///
/// A fence is a number whose text always has 15 digits, so fences, their texts and the acquisitions
/// have the same order. Store the highest fence beside the
/// data and refuse a write that carries a lower one: then a holder that lost its lock without
/// noticing cannot overwrite its successor.
///
/// ```
/// use syncguard_core::Fence;
///
/// let older = Fence::new(9)?;
/// let newer = Fence::new(10)?;
/// assert!(older < newer);
/// assert!(older.to_string() < newer.to_string());
/// assert_eq!(newer.to_string(), "000000000000010");
/// assert_eq!("000000000000010".parse::<Fence>()?, newer);
/// # Ok::<(), syncguard_core::LockError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fence(u64);

impl Fence {
    /// The value of a counter before the first acquisition. No lock ever carries it.
    pub const ZERO: Self = Self(0);

    /// The highest fence an acquisition may be granted. TypeScript: `FENCE_THRESHOLDS.MAX`.
    pub const MAX: Self = Self(900_000_000_000_000);

    /// Above this, every acquisition logs a warning. TypeScript: `FENCE_THRESHOLDS.WARN`.
    pub const WARN: Self = Self(90_000_000_000_000);

    /// The number of digits of every fence's text.
    pub const DIGITS: usize = 15;

    const LARGEST: u64 = 999_999_999_999_999;

    /// A fence from its number.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the number has more than 15 digits.
    pub fn new(number: u64) -> Result<Self, LockError> {
        if number > Self::LARGEST {
            return Err(LockError::invalid_argument("a fence has at most 15 decimal digits"));
        }
        Ok(Self(number))
    }

    /// The fence as a number for a `BIGINT` column or another signed 64-bit type.
    #[must_use]
    pub const fn as_i64(self) -> i64 {
        // 15 digits fit.
        self.0.cast_signed()
    }

    /// The fence as a number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The fence of the next acquisition, for authors of backends.
    ///
    /// Call it before the first write: an exhausted counter must leave no lock behind.
    ///
    /// # Errors
    ///
    /// `Internal` from [`Fence::MAX`] on.
    pub fn next(self) -> Result<Self, LockError> {
        if self >= Self::MAX {
            return Err(Self::exhausted());
        }
        Ok(Self(self.0 + 1))
    }

    /// The error for a key whose fence counter is used up, for authors of backends whose store
    /// counts.
    #[must_use]
    pub fn exhausted() -> LockError {
        LockError::internal(
            "the fence counter of this key has reached 900000000000000; use a new key",
        )
    }

    /// Logs a warning if the fence is above [`WARN`](Self::WARN), for authors of backends: call it after every acquisition. TypeScript: `logFenceWarning`.
    pub fn warn_near_limit(self, backend: &'static str, key: &Key) {
        if self > Self::WARN {
            tracing::warn!(
                backend,
                key_hash = %key.hash_id(),
                fence = %self,
                "the fence counter of this key is above 090000000000000; plan a new key"
            );
        }
    }

    /// The highest known fence of a key, for authors of backends: by its counter, or by its last lock. Logs an error if the
    /// counter is behind the lock.
    #[must_use]
    pub(crate) fn last_of(counter: Option<Self>, lock: Option<Self>, key: &Key) -> Self {
        if lock > counter {
            tracing::error!(
                key_hash = %key.hash_id(),
                "the fence counter of this key is behind its last lock: was it deleted?"
            );
        }
        lock.max(counter).unwrap_or(Self::ZERO)
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:015}", self.0)
    }
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fence({self})")
    }
}

impl FromStr for Fence {
    type Err = LockError;

    /// # Errors
    ///
    /// `InvalidArgument` unless the text is exactly 15 decimal digits.
    fn from_str(text: &str) -> Result<Self, LockError> {
        if text.len() != Self::DIGITS || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(LockError::invalid_argument("a fence is exactly 15 decimal digits"));
        }
        let number = text.bytes().fold(0, |number, digit| number * 10 + u64::from(digit - b'0'));
        Self::new(number)
    }
}

impl From<Fence> for i64 {
    /// Never fails: see [`Fence::as_i64`].
    fn from(fence: Fence) -> Self {
        fence.as_i64()
    }
}

impl TryFrom<i64> for Fence {
    type Error = LockError;

    /// # Errors
    ///
    /// `InvalidArgument` for a negative number, and for one of more than 15 digits.
    fn try_from(number: i64) -> Result<Self, LockError> {
        u64::try_from(number)
            .map_err(|_| LockError::invalid_argument("a fence is not negative"))
            .and_then(Self::new)
    }
}

impl From<Fence> for u64 {
    /// Never fails.
    fn from(fence: Fence) -> Self {
        fence.0
    }
}

/// The token of an acquisition: a [`Fence`], or [`NoFence`].
///
/// [`LockBackend::Fence`](crate::LockBackend::Fence) is one of the two. With a backend that fences,
/// `acquired.fence` is a [`Fence`]; code for both kinds of backend calls [`fence`](Self::fence).
pub trait FenceToken:
    Copy + Eq + Hash + fmt::Debug + Send + Sync + Unpin + sealed::Sealed + 'static
{
    /// True if acquisitions carry a fence.
    const SUPPORTED: bool;

    /// The fence, if the backend fences. TypeScript: `hasFence`.
    ///
    /// ```
    /// use syncguard_core::contract::{Acquired, FenceToken};
    ///
    /// fn describe<F: FenceToken>(lock: &Acquired<F>) -> String {
    ///     match lock.fence.fence() {
    ///         Some(fence) => format!("held under fence {fence}"),
    ///         None => "held, without a fence".to_owned(),
    ///     }
    /// }
    /// ```
    fn fence(&self) -> Option<Fence>;
}

/// The token of a backend that does not fence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NoFence;

impl FenceToken for Fence {
    const SUPPORTED: bool = true;

    fn fence(&self) -> Option<Fence> {
        Some(*self)
    }
}

impl FenceToken for NoFence {
    const SUPPORTED: bool = false;

    fn fence(&self) -> Option<Fence> {
        None
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Fence {}
    impl Sealed for super::NoFence {}
}

#[cfg(feature = "serde")]
super::serde_form::as_text!(Fence, "15 decimal digits");
