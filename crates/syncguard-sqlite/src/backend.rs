//! The backend and its constructors.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use syncguard_core::authoring::basic_health;
use syncguard_core::authoring::cancel::{self, Caller, Settle, Settled, Unsettled};
use syncguard_core::authoring::signals::LockSeen;
use syncguard_core::contract::{
    AcquireRequest, AcquireResult, BackendCapabilities, ExtendRequest, IsLockedRequest, KeyWatch,
    LookupRequest, ReleaseRequest, SignalStatus, TimeAuthority, WatchRequest,
};
use syncguard_core::diagnostics::Health;
use syncguard_core::inventory::Inventory;
use syncguard_core::shared::ClientState;
use syncguard_core::{
    ExtendResult, Fence, LockBackend, LockError, LockInfo, ReleaseResult, Timestamp,
};

use crate::config::SqliteOptions;
use crate::inner::Inner;
use crate::is_locked::IsLocked;
use crate::settings::Settings;
use crate::{acquire, extend, health, is_locked, lookup, release, settle, url};

/// Locks in a file, for all processes of one machine.
///
/// The backend has a thread that works on the file, so asynchronous threads never wait for the disk. Clones
/// share the thread, which ends with the last clone. Operations that wait for the disk at the same time
/// share one commit.
///
/// Two backends of one process may use the same file; clones of one backend are faster.
#[derive(Clone)]
pub struct SqliteBackend(Arc<Inner>);

impl SqliteBackend {
    /// Opens the file with the default options, and creates it if it does not exist.
    ///
    /// # Errors
    ///
    /// As [`open_with`](Self::open_with).
    ///
    /// # Cancel safety
    ///
    /// Safe: a file that was just created stays, and is empty.
    pub async fn open(path: impl Into<PathBuf>) -> Result<Self, LockError> {
        Self::open_with(path, SqliteOptions::new()).await
    }

    /// Opens the file, and creates it if it does not exist. Its folder must exist.
    ///
    /// A new file has mode 0600, for its owner alone. Other users can use the locks if you give the three
    /// files and their folder other modes.
    ///
    /// A relative path starts at the current folder at the time of this call. The path may be a symbolic
    /// link; hard links are refused. Opening takes at most the
    /// [operation timeout](SqliteOptions::with_operation_timeout).
    ///
    /// # Errors
    ///
    /// - `InvalidArgument` for an option that is out of range, a path that names no regular file, a missing
    ///   folder, a network file system, the file of another program or of a later version of this library, in
    ///   strict mode for a file that can be lost, outside a tokio runtime with timers, and in a process
    ///   that was forked from a process that had a file open.
    /// - `AuthFailed` if the user may not write the file or its folder.
    /// - `ServiceUnavailable` or `NetworkTimeout` if another process keeps the file locked, or the disk does
    ///   not answer.
    /// - `Internal` if the file is damaged.
    ///
    /// # Cancel safety
    ///
    /// Safe: a file that was just created stays, and is empty.
    pub async fn open_with(
        path: impl Into<PathBuf>,
        options: SqliteOptions,
    ) -> Result<Self, LockError> {
        let (path, settings) = (path.into(), Settings::new(options)?);
        let inner = cancel::read(None, Inner::open(path, settings)).await?;
        Ok(Self(Arc::new(inner)))
    }

    /// Opens the file that a URL names, with the options of the URL, and defaults for the others.
    ///
    /// The URL is `sqlite:///an/absolute/path?name=value&…`, or `sqlite:a/relative/path`. Options have the
    /// names of the methods of [`SqliteOptions`] that set them. Times are whole milliseconds, switches are
    /// `true` or `false`, and special characters are percent-encoded.
    ///
    /// | parameter | what it sets | default |
    /// |---|---|---|
    /// | `operation_timeout_ms` | the longest an operation may take | 5000 |
    /// | `synchronous` | when SQLite waits for the disk: `full` or `normal` | `full` |
    /// | `strict_durability` | refuses a file that may forget a lock | `false` |
    /// | `cleanup_in_is_locked` | lets `is_locked` delete expired locks | `false` |
    /// | `dispose_timeout_ms` | the longest a release at the end of a guard may take | 5000 |
    /// | `holder` | the label of the holder, for people to read; empty is none | host name and process id |
    /// | `note` | a note beside the label | none |
    ///
    /// A URL cannot set [`with_on_release_error`](SqliteOptions::with_on_release_error), which is code.
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

    /// Opens the file that a URL names, with these options. The URL has the form that
    /// [`connect`](Self::connect) describes; its options win over these.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a bad URL; the message says what is allowed and shows no part of the URL.
    /// Otherwise as [`open_with`](Self::open_with).
    ///
    /// # Cancel safety
    ///
    /// As [`open`](Self::open).
    pub async fn connect_with(url: &str, options: SqliteOptions) -> Result<Self, LockError> {
        let (path, options) = url::parse(url, options)?;
        Self::open_with(path, options).await
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.0
    }
}

#[deny(clippy::missing_trait_methods)]
impl LockBackend for SqliteBackend {
    type Fence = Fence;

    async fn acquire(&self, request: AcquireRequest) -> Result<AcquireResult, LockError> {
        cancel::finish_acquire_settled(self, request, |request, caller| {
            acquire::acquire(Arc::clone(&self.0), request, caller)
        })
        .await
    }

    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseResult, LockError> {
        let token = request.cancellation.clone();
        let caller = Caller::new(token.as_ref());
        let release = release::release(Arc::clone(&self.0), request, caller);
        cancel::finish(token.as_ref(), release).await
    }

    async fn extend(&self, request: ExtendRequest) -> Result<ExtendResult, LockError> {
        let token = request.cancellation.clone();
        let caller = Caller::new(token.as_ref());
        let extend = extend::extend(Arc::clone(&self.0), request, caller);
        cancel::finish(token.as_ref(), extend).await
    }

    async fn is_locked(&self, request: IsLockedRequest) -> Result<bool, LockError> {
        let IsLockedRequest { key, cancellation: token, .. } = request;
        let caller = Caller::new(token.as_ref());
        cancel::read(token.as_ref(), is_locked::is_locked(Arc::clone(&self.0), key, caller)).await
    }

    async fn lookup(&self, request: LookupRequest) -> Result<Option<LockInfo>, LockError> {
        let LookupRequest { by, cancellation: token, .. } = request;
        let caller = Caller::new(token.as_ref());
        cancel::read(token.as_ref(), lookup::lookup(Arc::clone(&self.0), by, caller)).await
    }

    async fn watch(&self, request: WatchRequest) -> Option<KeyWatch> {
        // Add the watch before the read, so that a release after the read is signalled.
        let watch = self.0.watches.add(request.key.clone());
        let state = self.0.run(IsLocked(request.key), Caller::new(None)).await.ok()?;
        Some(LockSeen::of(state.is_locked.then_some(state.is_polled)).add_to(watch))
    }

    async fn health(&self) -> Health {
        // Each process looks at the file by itself, and so hears of the others.
        let mut health = basic_health(self, |_| SignalStatus::Working).await;
        health::describe(&mut health, &self.0.durability);
        health
    }

    fn inventory(&self) -> Option<Inventory> {
        Some(Inventory::new(self.clone()))
    }

    fn capabilities(&self) -> BackendCapabilities {
        BackendCapabilities::new::<Fence>("sqlite", TimeAuthority::Server).with_fence_windows()
    }

    fn client_state(&self) -> &ClientState {
        &self.0.settings.client_state
    }
}

impl Settle for SqliteBackend {
    type VoidAfter = Timestamp;

    async fn settle(&self, acquire: &Unsettled) -> Result<Settled, LockError> {
        settle::settle(&self.0, acquire).await
    }
}

impl fmt::Debug for SqliteBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteBackend").field("settings", &self.0.settings).finish_non_exhaustive()
    }
}
