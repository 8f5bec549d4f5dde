//! The backend, and the ways to get one.

use std::fmt;
use std::sync::Arc;

use fred::clients::{Client, Pool};
use fred::interfaces::ClientLike;
use syncguard_core::authoring::cancel;
use syncguard_core::contract::{
    AcquireRequest, AcquireResult, BackendCapabilities, ClientState, ExtendRequest,
    IsLockedRequest, KeyWatch, LookupBy, LookupRequest, ReleaseRequest, SignalStatus,
    TimeAuthority, WatchRequest,
};
use syncguard_core::inventory::Inventory;
use syncguard_core::{ExtendResult, Fence, LockBackend, LockError, LockInfo, ReleaseResult};

use crate::client::Connections;
use crate::config::RedisOptions;
use crate::durability::{self, DurabilityReport};
use crate::inner::Inner;
use crate::layout::{KeyLayout, Layout};
use crate::{acquire, error, extend, is_locked, lookup, release, settle, speech, url};

/// Locks in Redis or Valkey. TypeScript: `createRedisBackend`.
///
/// A cheap handle: clones share the connections. Those opened by [`connect`](Self::connect) are closed
/// with the last clone; a client that was passed in stays the caller's.
#[derive(Clone)]
pub struct RedisBackend(Arc<Inner>);

impl RedisBackend {
    /// Connects with the default options, and those that the URL sets.
    ///
    /// | URL | server |
    /// |---|---|
    /// | `redis://[[user:]password@]host[:6379][/database]` | one server |
    /// | `redis-cluster://[[user:]password@]host[:6379]?node=host:port&…` | a cluster, found from any of its nodes; [how locks spread over it](crate#cluster) |
    /// | `redis-sentinel://[[user:]password@]host[:26379][/database]?sentinelServiceName=…` | the master that Sentinels name |
    /// | `redis+unix:///path` | a Unix socket, with the feature `unix-sockets` |
    ///
    /// `rediss…` is the same over TLS, with the feature `tls`; `valkey` reads as `redis` everywhere.
    /// Special characters are percent-encoded, in user name and password as well.
    ///
    /// Options follow as `?name=value&…`. Each is called as the method of [`RedisOptions`] that sets
    /// it; times are whole milliseconds, switches `true` or `false`.
    ///
    /// | parameter | what it sets | default |
    /// |---|---|---|
    /// | `key_prefix` | what the names of all records start with; `{app}` is written `%7Bapp%7D` or as it is; [never the beginning of another prefix up to a colon](RedisOptions::with_key_prefix) | `syncguard` |
    /// | `command_timeout_ms` | the longest an operation may take | 2000 |
    /// | `connect_timeout_ms` | the longest connecting may take in all | 5000 |
    /// | `connections` | how many connections, 1 to 64 | 1 |
    /// | `wait_replicas` | how many replicas must have a lock before it counts; 0 is none | 0 |
    /// | `wait_replicas_timeout_ms` | how long to wait for them, up to half of the command timeout | 500 |
    /// | `strict_durability` | refuses a server that can lose locks | `false` |
    /// | `cleanup_in_is_locked` | lets `is_locked` clear away expired locks | `false` |
    /// | `dispose_timeout_ms` | the longest a release at the end of a guard may take | 5000 |
    /// | `holder` | who holds the locks, for people; empty is none | host name and process id |
    /// | `note` | a note beside it | none |
    /// | `sslrootcert` | for `rediss`: a PEM file of the authorities to trust, instead of the system's | |
    /// | `node` | clusters and Sentinel: a further address, as often as there are some | |
    /// | `sentinelServiceName` | Sentinel: the name of the master | |
    /// | `sentinelUsername` | Sentinel: the user name for the Sentinels themselves | none |
    /// | `sentinelPassword` | Sentinel: the password for the Sentinels themselves | none |
    ///
    /// Not in a URL: [`with_on_release_error`](RedisOptions::with_on_release_error), which is code.
    ///
    /// # Errors
    ///
    /// As [`connect_with`](Self::connect_with).
    ///
    /// # Cancel safety
    ///
    /// Safe: connections opened so far are closed.
    pub async fn connect(url: &str) -> Result<Self, LockError> {
        Self::connect_with(url, RedisOptions::new()).await
    }

    /// Connects with these options, and reports on the server's durability. The URL is that of
    /// [`connect`](Self::connect), and wins over the options where it says something else.
    ///
    /// The connections live on the runtime this is called in, and reconnect for ever. While there is
    /// none, operations fail at once with `ServiceUnavailable`.
    ///
    /// # Errors
    ///
    /// - `InvalidArgument` for a bad URL or option, a node of a cluster that is connected to as a single server, or a URL that
    ///   needs a feature which is not enabled. The message says what is allowed and shows nothing of
    ///   the URL.
    ///   So is what [strict durability](RedisOptions::with_strict_durability) refuses, and a port that speaks TLS where the URL says that it does not, and the other way round.
    /// - `AuthFailed` if the server refuses the credentials, if its certificate cannot be trusted, or if it
    ///   wants a client certificate.
    /// - `ServiceUnavailable` or `NetworkTimeout` if it cannot be reached, or has not answered everything
    ///   that is asked of it here within the [connect timeout](RedisOptions::with_connect_timeout).
    ///
    /// # Cancel safety
    ///
    /// Safe: connections opened so far are closed.
    pub async fn connect_with(url: &str, options: RedisOptions) -> Result<Self, LockError> {
        let (config, options) = url::parse(url, options)?;
        options.check()?;
        let layout = Layout::new(&options.key_prefix, config.server.is_clustered())?;
        let (servers, tls) = (config.server.hosts(), config.uses_tls());
        let connect_timeout = options.connect_timeout;
        let connecting = async {
            let opening = Connections::open(config, layout.sections().len(), &options);
            let patience = connect_timeout / 2;
            let connections = speech::explained(servers, tls, patience, opening).await?;
            let inner = Inner::new(connections, layout, options)?;
            inner.refuse_node_of_cluster().await?;
            inner.check_durability().await?;
            inner.ask_times().await;
            Ok(Self(Arc::new(inner)))
        };
        tokio::time::timeout(connect_timeout, connecting)
            .await
            .unwrap_or_else(|_| Err(error::connect_timed_out()))
    }

    /// Over a client the program has: connected, or about to be. It may be of a single server, a
    /// cluster or Sentinel, and stays in use and in charge of its connection. Sends nothing; with
    /// [strict durability](RedisOptions::with_strict_durability), the first acquire asks the server.
    ///
    /// Give it a reconnect policy. Its attempts, timeouts and fail-fast settings do not matter here.
    ///
    /// On a cluster with [shards](crate#cluster), a client with `max_redirections: 0` in its `ConnectionConfig` is needed:
    /// following an `ASK`, fred 10.1 takes the answer to another command for its own, and mixes up all that follow.
    /// Locks find slots that have moved without it.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a bad option, or a cluster client that follows redirections with a prefix without a
    /// hash tag.
    pub fn from_client(client: Client, options: RedisOptions) -> Result<Self, LockError> {
        Self::over(&[client], options)
    }

    /// Over a pool the program has; see [`from_client`](Self::from_client).
    ///
    /// # Errors
    ///
    /// As [`from_client`](Self::from_client).
    #[expect(clippy::needless_pass_by_value, reason = "it is handed over, as a client is")]
    pub fn from_pool(pool: Pool, options: RedisOptions) -> Result<Self, LockError> {
        Self::over(pool.clients(), options)
    }

    /// Asks the server how safe locks are on it. Of a cluster, these are all masters that have locks of this
    /// prefix, and the report is the worst of theirs.
    ///
    /// # Errors
    ///
    /// The store's failures. What the server refuses to say is in the report as unverified.
    ///
    /// # Cancel safety
    ///
    /// Safe: it only reads.
    pub async fn durability_report(&self) -> Result<DurabilityReport, LockError> {
        let report = durability::report(&self.0.connections, &self.0.layout).await?;
        Ok(DurabilityReport { signals: self.signals(), ..report })
    }

    /// Whether those who wait [hear of releases](crate#waiting). Meant for health checks; asks nobody.
    #[must_use]
    pub fn signals(&self) -> SignalStatus {
        self.0.signals.status()
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.0
    }

    fn over(clients: &[Client], options: RedisOptions) -> Result<Self, LockError> {
        options.check()?;
        let clustered = clients.iter().any(Client::is_clustered);
        let layout = Layout::new(&options.key_prefix, clustered)?;
        if layout.kind() != KeyLayout::OneServer
            && clients.iter().any(|client| client.connection_config().max_redirections > 0)
        {
            return Err(LockError::invalid_argument(
                "a cluster client that follows redirections may mix up the answers of several shards; set \
                 max_redirections to 0 in its ConnectionConfig, or give the key prefix a hash tag",
            ));
        }
        if !clients.iter().all(Client::has_reconnect_policy) {
            tracing::warn!(
                "a Redis client without a reconnect policy: once its connection is lost, every lock fails"
            );
        }
        let sections = layout.sections().len();
        let connections = Connections::over(clients, clustered, sections, options.command_timeout);
        Ok(Self(Arc::new(Inner::new(connections, layout, options)?)))
    }
}

#[deny(clippy::missing_trait_methods)]
impl LockBackend for RedisBackend {
    type Fence = Fence;

    async fn acquire(&self, request: AcquireRequest) -> Result<AcquireResult, LockError> {
        let inner = Arc::clone(&self.0);
        cancel::finish_acquire_settled(self, request, |request, caller| async move {
            acquire::acquire(&inner, &request, &caller).await
        })
        .await
    }

    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseResult, LockError> {
        let inner = Arc::clone(&self.0);
        let cancellation = request.cancellation.clone();
        let release = async move { release::release(&inner, &request).await };
        cancel::finish(cancellation.as_ref(), release).await
    }

    async fn extend(&self, request: ExtendRequest) -> Result<ExtendResult, LockError> {
        let inner = Arc::clone(&self.0);
        let cancellation = request.cancellation.clone();
        let extend = async move { extend::extend(&inner, &request).await };
        cancel::finish(cancellation.as_ref(), extend).await
    }

    async fn is_locked(&self, request: IsLockedRequest) -> Result<bool, LockError> {
        let read = is_locked::is_locked(&self.0, &request.key);
        let result = cancel::read(request.cancellation.as_ref(), read).await;
        result.map_err(|error| error.with_key(&request.key))
    }

    async fn lookup(&self, request: LookupRequest) -> Result<Option<LockInfo>, LockError> {
        let cancellation = request.cancellation.as_ref();
        match &request.by {
            LookupBy::Key(key) => {
                let result = cancel::read(cancellation, lookup::by_key(&self.0, key)).await;
                result.map_err(|error| error.with_key(key))
            }
            LookupBy::LockId(lock_id) => {
                let hint = request.key_hint.as_ref();
                let read = Box::pin(lookup::by_lock_id(&self.0, *lock_id, hint));
                let result = cancel::read(cancellation, read).await;
                result.map_err(|error| error.with_lock_id(*lock_id))
            }
        }
    }

    async fn watch(&self, request: WatchRequest) -> Option<KeyWatch> {
        let section = self.0.layout.section_of(&request.key).ok()?;
        let name = section.lock_name(&request.key).ok()?;
        self.0.signals.watch(section.slot, &name).await
    }

    fn inventory(&self) -> Option<Inventory> {
        Some(Inventory::new(self.clone()))
    }

    fn capabilities(&self) -> BackendCapabilities {
        BackendCapabilities::new::<Fence>("redis", TimeAuthority::Server)
    }

    fn client_state(&self) -> &ClientState {
        &self.0.client_state
    }
}

impl cancel::Settle for RedisBackend {
    async fn settle(&self, acquire: &cancel::Unsettled) -> Result<cancel::Settled, LockError> {
        settle::settle(&self.0, acquire).await
    }
}

impl fmt::Debug for RedisBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisBackend")
            .field("key_prefix", &self.0.layout.prefix())
            .field("layout", &self.0.layout.kind())
            .field("connections", &self.0.connections.len())
            .field("wait_replicas", &self.0.wait_replicas)
            .finish()
    }
}
