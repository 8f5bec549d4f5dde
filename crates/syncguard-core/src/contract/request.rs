//! The requests to a backend.
//!
//! A request is checked when it is made, so a backend never sees a bad argument. It owns its parts, so
//! a backend can finish an operation whose caller has gone.

use tokio_util::sync::CancellationToken;

use super::fence_window::FenceWindow;
use crate::value::{Fence, Holder, IntoKey, IntoTtl, Key, LockError, LockId, Timestamp, Ttl};

/// Asks for a lock: [`LockBackend::acquire`](crate::LockBackend::acquire).
///
/// The request carries the id of the lock that it asks for. A caller sends it once. After an error whose
/// [outcome is unknown](LockError::is_outcome_unknown), make a new request: the backend releases every lock
/// that it finds under the old id, even a lock that a second request was granted.
#[derive(Debug)]
#[non_exhaustive]
pub struct AcquireRequest {
    /// The key to lock.
    pub key: Key,
    /// How long the lock lives.
    pub ttl: Ttl,
    /// The id of the lock if it is granted.
    pub lock_id: LockId,
    /// The holder of the lock if it is granted; `None` is the [holder of the backend](crate::shared::ClientState::holder).
    pub holder: Option<Holder>,
    /// The fences with which the lock may be granted; `None` for the next fence of the key. Callers send a window only
    /// to a backend that [supports windows](super::BackendCapabilities::supports_fence_windows).
    pub fence_window: Option<FenceWindow>,
    /// True if the caller was told a moment ago that somebody has the lock, and nothing says that it is free: a backend
    /// may look before it tries.
    pub was_busy: bool,
    /// The operation is given up when this token fires.
    pub cancellation: Option<CancellationToken>,
}

impl AcquireRequest {
    /// A request with a fresh lock id. Takes a key or a text, and a [`Ttl`] or a
    /// [`Duration`](std::time::Duration).
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a bad key or TTL; `Internal` if the system has no secure randomness.
    pub fn new(key: impl IntoKey, ttl: impl IntoTtl) -> Result<Self, LockError> {
        Ok(Self {
            key: key.into_key()?,
            ttl: ttl.into_ttl()?,
            lock_id: LockId::generate()?,
            holder: None,
            fence_window: None,
            was_busy: false,
            cancellation: None,
        })
    }

    /// The same request with the same lock id: for a backend that sends it again within one call, and for
    /// decorators. A caller makes a [`new`](Self::new) request.
    #[must_use]
    pub fn repeat(&self) -> Self {
        Self {
            key: self.key.clone(),
            ttl: self.ttl,
            lock_id: self.lock_id,
            holder: self.holder.clone(),
            fence_window: self.fence_window,
            was_busy: self.was_busy,
            cancellation: self.cancellation.clone(),
        }
    }

    /// For authors of backends: the fence of the lock if it is granted, for a key with this counter.
    ///
    /// # Errors
    ///
    /// `Internal` if the counter is exhausted.
    pub fn next_fence(&self, counter: Fence) -> Result<Fence, LockError> {
        let next = counter.next()?;
        Ok(self.fence_window.map_or(next, |window| next.max(window.at_least())))
    }

    crate::setters! {
        /// Uses this lock id. It must be unique: no other key, earlier lock or request of unknown outcome may
        /// have had it.
        with_lock_id(lock_id: LockId);
        /// Grants the lock only within this window. The answer is [`AcquireResult::Refused`](super::AcquireResult::Refused)
        /// otherwise.
        with_fence_window(fence_window: Some(FenceWindow));
        /// Says whether the caller was told a moment ago that somebody has the lock.
        with_was_busy(was_busy: bool);
        /// Stores this holder with the lock, if the store keeps holders.
        with_holder(holder: Some(Holder));
        /// Gives the operation up with `Aborted` when the token fires.
        with_cancellation(cancellation: Some(CancellationToken));
    }
}

/// Asks to give a lock back: [`LockBackend::release`](crate::LockBackend::release).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReleaseRequest {
    /// The lock to release.
    pub lock_id: LockId,
    /// The key under which the lock is likely to be found.
    pub key_hint: Option<Key>,
    /// The fence counter of the key afterwards, at least; `None` leaves the counter as it is. Callers send it only to a
    /// backend that [supports fence windows](super::BackendCapabilities::supports_fence_windows), with the key of the
    /// lock as the hint.
    pub counter_at_least: Option<Fence>,
    /// The operation is given up when this token fires.
    pub cancellation: Option<CancellationToken>,
}

impl ReleaseRequest {
    /// Releases this lock.
    #[must_use]
    pub fn new(lock_id: LockId) -> Self {
        Self { lock_id, key_hint: None, counter_at_least: None, cancellation: None }
    }

    /// Raises the counter of this key to at least this value, in the same step. If the lock is not held any more, or has
    /// another key, the counter stays as it is.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a value above [`Fence::MAX`], which no counter exceeds.
    pub fn with_counter_at_least(self, key: Key, at_least: Fence) -> Result<Self, LockError> {
        if at_least > Fence::MAX {
            return Err(LockError::invalid_argument(format!(
                "a release cannot raise a counter to {at_least}; up to {} is allowed",
                Fence::MAX
            )));
        }
        Ok(Self { counter_at_least: Some(at_least), ..self.with_key_hint(key) })
    }

    /// For authors of backends: the key whose counter is raised, and the value.
    #[must_use]
    pub fn raised(&self) -> Option<(&Key, Fence)> {
        self.key_hint.as_ref().zip(self.counter_at_least)
    }

    crate::setters! {
        /// Says which key the lock has. Guards always do.
        ///
        /// The hint changes no answer, only the price: a store that finds locks by their keys, such as a Redis
        /// Cluster or Firestore, looks under this key first, and elsewhere only if the lock is not there. The
        /// lock id alone decides: a lock of this key with another id is left alone, and a lock with this id is
        /// found even if it has another key.
        with_key_hint(key_hint: Some(Key));
        /// Gives the operation up with `Aborted` when the token fires.
        with_cancellation(cancellation: Some(CancellationToken));
    }
}

/// Asks to set a lock's remaining life: [`LockBackend::extend`](crate::LockBackend::extend).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ExtendRequest {
    /// The lock to extend.
    pub lock_id: LockId,
    /// The key under which the lock is likely to be found.
    pub key_hint: Option<Key>,
    /// How long the lock lives from now on. It replaces the rest of the TTL; it is not added to it.
    pub ttl: Ttl,
    /// The expiry that the caller knows; the lock is extended only if it still expires then.
    pub expected_expiry: Option<Timestamp>,
    /// Whether the backend may send this extend together with others.
    pub goes_with_others: bool,
    /// The operation is given up when this token fires.
    pub cancellation: Option<CancellationToken>,
}

impl ExtendRequest {
    /// Lets this lock live for `ttl` from now on. Takes a [`Ttl`] or a [`Duration`](std::time::Duration).
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a bad TTL.
    pub fn new(lock_id: LockId, ttl: impl IntoTtl) -> Result<Self, LockError> {
        let ttl = ttl.into_ttl()?;
        Ok(Self {
            lock_id,
            key_hint: None,
            ttl,
            expected_expiry: None,
            goes_with_others: false,
            cancellation: None,
        })
    }

    crate::setters! {
        /// Says which key the lock has: see [`ReleaseRequest::with_key_hint`].
        with_key_hint(key_hint: Some(Key));
        /// Extends the lock only if it still expires at this time, as the last answer said. Otherwise the answer is
        /// [`ExtendResult::Mismatch`](crate::ExtendResult::Mismatch), and nothing is changed.
        ///
        /// An extend may arrive after a later one. Without an expected expiry, the earlier extend then replaces the
        /// expiry of the later one, and a holder that relies on the later expiry is wrong. Guards always send it.
        with_expected_expiry(expected_expiry: Some(Timestamp));
        /// Lets the backend carry out this extend together with others of the same moment, by one request of the store. The
        /// answer is the same as if it went alone. It needs an [expected expiry](Self::with_expected_expiry). The renewals
        /// of guards are such extends, unless the last try has failed.
        with_others(goes_with_others: bool);
        /// Gives the operation up with `Aborted` when the token fires.
        with_cancellation(cancellation: Some(CancellationToken));
    }
}

/// Asks whether a key is locked: [`LockBackend::is_locked`](crate::LockBackend::is_locked).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct IsLockedRequest {
    /// The key to ask about.
    pub key: Key,
    /// The operation is given up when this token fires.
    pub cancellation: Option<CancellationToken>,
}

impl IsLockedRequest {
    /// Asks about this key.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a bad key.
    pub fn new(key: impl IntoKey) -> Result<Self, LockError> {
        Ok(Self { key: key.into_key()?, cancellation: None })
    }

    crate::setters! {
        /// Gives the operation up with `Aborted` when the token fires.
        with_cancellation(cancellation: Some(CancellationToken));
    }
}

/// Asks for the details of a live lock: [`LockBackend::lookup`](crate::LockBackend::lookup).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LookupRequest {
    /// How the lock is found.
    pub by: LookupBy,
    /// For a lookup by lock id: the key under which the lock is likely to be found.
    pub key_hint: Option<Key>,
    /// The operation is given up when this token fires.
    pub cancellation: Option<CancellationToken>,
}

/// How a lookup finds the lock. Every backend must know all variants, so one more would be a new contract.
#[derive(Clone, Debug)]
pub enum LookupBy {
    /// "Is this key locked, and until when?"
    Key(Key),
    /// "Do I still hold this lock?"
    LockId(LockId),
}

impl LookupBy {
    /// For authors of backends: the error of a lookup that asks so.
    #[must_use]
    pub fn name_in(&self, error: LockError) -> LockError {
        match self {
            Self::Key(key) => error.with_key(key),
            Self::LockId(lock_id) => error.with_lock_id(*lock_id),
        }
    }
}

impl LookupRequest {
    /// Looks for the lock of this key.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a bad key.
    pub fn by_key(key: impl IntoKey) -> Result<Self, LockError> {
        let key = key.into_key()?;
        Ok(Self { by: LookupBy::Key(key), key_hint: None, cancellation: None })
    }

    /// Looks for the lock with this id.
    #[must_use]
    pub fn by_lock_id(lock_id: LockId) -> Self {
        Self { by: LookupBy::LockId(lock_id), key_hint: None, cancellation: None }
    }

    crate::setters! {
        /// Says which key the lock with the id has: see [`ReleaseRequest::with_key_hint`]. It does nothing for
        /// a lookup by key.
        with_key_hint(key_hint: Some(Key));
        /// Gives the operation up with `Aborted` when the token fires.
        with_cancellation(cancellation: Some(CancellationToken));
    }
}

/// Asks for signals of a key: [`LockBackend::watch`](crate::LockBackend::watch).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WatchRequest {
    /// The key of the lock that the caller waits for.
    pub key: Key,
}

impl WatchRequest {
    /// Asks for signals of this key.
    #[must_use]
    pub const fn new(key: Key) -> Self {
        Self { key }
    }
}
