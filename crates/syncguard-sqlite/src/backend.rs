//! The backend.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use syncguard_core::authoring::cancel::{self, Caller, Settle, Settled, Unsettled};
use syncguard_core::authoring::signals::LockSeen;
use syncguard_core::contract::{
    AcquireRequest, AcquireResult, BackendCapabilities, ClientState, ExtendRequest,
    IsLockedRequest, KeyWatch, LookupBy, LookupRequest, ReleaseRequest, TimeAuthority,
    WatchRequest,
};
use syncguard_core::inventory::Inventory;
use syncguard_core::{ExtendResult, Fence, LockBackend, LockError, LockInfo, ReleaseResult};

use crate::acquire::Acquire;
use crate::config::SqliteOptions;
use crate::durability::DurabilityReport;
use crate::extend::Extend;
use crate::inner::Inner;
use crate::is_locked::{ClearAway, IsLocked};
use crate::lookup::Lookup;
use crate::release::Release;
use crate::settings::Settings;
use crate::url;

/// Locks in a file, for all processes of one machine.
///
/// A thread of its own works on the file, so that no asynchronous one ever waits for the disk. Clones share
/// it, and it ends with the last of them. Operations that wait for the disk at the same time wait once, for
/// one commit.
///
/// Two backends of one process may use the same file; clones of one are faster.
#[derive(Clone)]
pub struct SqliteBackend(Arc<Inner>);

impl SqliteBackend {
    /// Opens the file with the default options, and makes it if there is none.
    ///
    /// # Errors
    ///
    /// As [`open_with`](Self::open_with).
    ///
    /// # Cancel safety
    ///
    /// Safe: a file that was just made stays, and is empty.
    pub async fn open(path: impl Into<PathBuf>) -> Result<Self, LockError> {
        Self::open_with(path, SqliteOptions::new()).await
    }

    /// Opens the file, and makes it if there is none: with mode 0600, for its owner alone. Others may use
    /// it if you give the three files, and their folder, other modes. Its folder must exist.
    ///
    /// A relative path counts from the current folder of this moment. The last link of the path may be a
    /// symbolic one, hard links are refused. Takes the
    /// [operation timeout](SqliteOptions::with_operation_timeout) at most.
    ///
    /// # Errors
    ///
    /// - `InvalidArgument` for an option that is out of range, a path that names no regular file, a missing
    ///   folder, a network file system, the file of another program or of a later version of this library, in
    ///   strict mode for a file that can be lost, outside a tokio runtime with timers, and in a process
    ///   that was forked from one that had a file open.
    /// - `AuthFailed` if the user may not write the file or its folder.
    /// - `ServiceUnavailable` or `NetworkTimeout` if another process keeps the file to itself, or the disk
    ///   does not answer.
    /// - `Internal` if the file is damaged.
    ///
    /// # Cancel safety
    ///
    /// Safe: a file that was just made stays, and is empty.
    pub async fn open_with(
        path: impl Into<PathBuf>,
        options: SqliteOptions,
    ) -> Result<Self, LockError> {
        let (path, settings) = (path.into(), Settings::new(options)?);
        let inner = cancel::read(None, Inner::open(path, settings)).await?;
        Ok(Self(Arc::new(inner)))
    }

    /// Opens the file that a URL names, with the default options and those that the URL sets.
    ///
    /// `sqlite:///an/absolute/path?name=value&…`, or `sqlite:a/relative/path`. Special characters are
    /// percent-encoded. Options are called as the methods of [`SqliteOptions`] that set them; times are whole
    /// milliseconds, switches `true` or `false`.
    ///
    /// | parameter | what it sets | default |
    /// |---|---|---|
    /// | `operation_timeout_ms` | the longest an operation may take | 5000 |
    /// | `synchronous` | when SQLite waits for the disk: `full` or `normal` | `full` |
    /// | `strict_durability` | refuses a file that may forget a lock | `false` |
    /// | `cleanup_in_is_locked` | lets `is_locked` delete expired locks | `false` |
    /// | `dispose_timeout_ms` | the longest a release at the end of a guard may take | 5000 |
    /// | `holder` | who holds the locks, for people; empty is none | host name and process id |
    /// | `note` | a note beside it | none |
    ///
    /// Not in a URL: [`with_on_release_error`](SqliteOptions::with_on_release_error), which is code.
    ///
    /// # Errors
    ///
    /// As [`connect_with`](Self::connect_with).
    ///
    /// # Cancel safety
    ///
    /// As [`open`](Self::open).
    pub async fn connect(url: &str) -> Result<Self, LockError> {
        Self::connect_with(url, SqliteOptions::new()).await
    }

    /// Opens the file that a URL names. The URL is that of [`connect`](Self::connect), and wins over the
    /// options where it says something else.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a bad URL, whose message says what is allowed and shows nothing of it; else as
    /// [`open_with`](Self::open_with).
    ///
    /// # Cancel safety
    ///
    /// As [`open`](Self::open).
    pub async fn connect_with(url: &str, options: SqliteOptions) -> Result<Self, LockError> {
        let (path, options) = url::parse(url, options)?;
        Self::open_with(path, options).await
    }

    /// What was found at the opening that can make the file forget a lock. Never blocks.
    #[must_use]
    pub fn durability_report(&self) -> &DurabilityReport {
        &self.0.durability
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.0
    }
}

#[deny(clippy::missing_trait_methods)]
impl LockBackend for SqliteBackend {
    type Fence = Fence;

    async fn acquire(&self, request: AcquireRequest) -> Result<AcquireResult, LockError> {
        let inner = Arc::clone(&self.0);
        cancel::finish_acquire_settled(self, request, |request, caller| async move {
            let key = request.key.clone();
            let holder = inner.settings.client_state.holder_of(&request).clone();
            let result = inner.run(Acquire(request, holder), caller).await;
            let result = result.map_err(|error| error.with_key(&key))?;
            if let AcquireResult::Acquired(acquired) = &result {
                acquired.fence.warn_near_limit("sqlite", &key);
            }
            Ok(result)
        })
        .await
    }

    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseResult, LockError> {
        let ReleaseRequest { lock_id, cancellation: token, .. } = request;
        let (inner, caller) = (Arc::clone(&self.0), Caller::new(token.as_ref()));
        cancel::finish(token.as_ref(), async move {
            let result = inner.run(Release(lock_id), caller).await;
            result.map_err(|error| error.with_lock_id(lock_id))
        })
        .await
    }

    async fn extend(&self, request: ExtendRequest) -> Result<ExtendResult, LockError> {
        let (token, lock_id) = (request.cancellation.clone(), request.lock_id);
        let (inner, caller) = (Arc::clone(&self.0), Caller::new(token.as_ref()));
        cancel::finish(token.as_ref(), async move {
            let result = inner.run(Extend(request), caller).await;
            result.map_err(|error| error.with_lock_id(lock_id))
        })
        .await
    }

    async fn is_locked(&self, request: IsLockedRequest) -> Result<bool, LockError> {
        let IsLockedRequest { key, cancellation: token, .. } = request;
        let read = async {
            let result = self.0.run(IsLocked(key.clone()), Caller::new(token.as_ref())).await;
            let seen = result.map_err(|error| error.with_key(&key))?;
            if seen.is_clearable && self.0.settings.cleanup_in_is_locked {
                self.0.leave(ClearAway(key));
            }
            Ok(seen.is_locked)
        };
        cancel::read(token.as_ref(), read).await
    }

    async fn lookup(&self, request: LookupRequest) -> Result<Option<LockInfo>, LockError> {
        let LookupRequest { by, cancellation: token, .. } = request;
        let read = async {
            let result = self.0.run(Lookup(by.clone()), Caller::new(token.as_ref())).await;
            result.map_err(|error| match &by {
                LookupBy::Key(key) => error.with_key(key),
                LookupBy::LockId(lock_id) => error.with_lock_id(*lock_id),
            })
        };
        cancel::read(token.as_ref(), read).await
    }

    async fn watch(&self, request: WatchRequest) -> Option<KeyWatch> {
        // It listens before it looks: what ends after the look is heard.
        let watch = self.0.watches.add(request.key.clone());
        let seen = self.0.run(IsLocked(request.key), Caller::new(None)).await.ok()?;
        Some(LockSeen::of(seen.is_locked.then_some(seen.holder_polls)).add_to(watch))
    }

    fn inventory(&self) -> Option<Inventory> {
        Some(Inventory::new(self.clone()))
    }

    fn capabilities(&self) -> BackendCapabilities {
        BackendCapabilities::new::<Fence>("sqlite", TimeAuthority::Server)
    }

    fn client_state(&self) -> &ClientState {
        &self.0.settings.client_state
    }
}

impl Settle for SqliteBackend {
    /// One release tells all: whatever this backend has begun was over before its thread came to this, and
    /// what it has not begun will not be.
    async fn settle(&self, acquire: &Unsettled) -> Result<Settled, LockError> {
        self.release(acquire.release()).await?;
        Ok(Settled::Done)
    }
}

impl fmt::Debug for SqliteBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteBackend").field("settings", &self.0.settings).finish_non_exhaustive()
    }
}
