//! The backend and its constructors.

use std::fmt;
use std::sync::Arc;

use fred::clients::{Client, Pool};
use fred::interfaces::ClientLike as _;
use futures_util::future::try_join_all;
use syncguard_core::authoring::{cancel, reported_health};
use syncguard_core::contract::{
    AcquireRequest, AcquireResult, BackendCapabilities, ExtendRequest, IsLockedRequest, KeyWatch,
    LookupBy, LookupRequest, ReleaseRequest, SignalStatus, TimeAuthority, WatchRequest,
};
use syncguard_core::diagnostics::Health;
use syncguard_core::inventory::Inventory;
use syncguard_core::shared::ClientState;
use syncguard_core::{
    ExtendResult, Fence, LockBackend, LockError, LockInfo, ReleaseResult, Timestamp,
};

use crate::client::Connections;
use crate::config::RedisOptions;
use crate::connect::UrlServers;
use crate::connection_name::ConnectionName;
use crate::durability::{self, DurabilityReport};
use crate::fred_client::FredClient;
use crate::inner::Inner;
use crate::layout::{KeyLayout, Layout};
use crate::link::Opener;
use crate::service::{Servers, Service};
use crate::{
    acquire, error, extend, health, is_locked, lookup, neighbors, probe, release, settle, url,
};

/// Locks in Redis or Valkey. TypeScript: `createRedisBackend`.
///
/// A cheap handle: clones share the connections. Those opened by [`connect`](Self::connect) are closed
/// with the last clone; a client that was passed in stays the caller's.
#[derive(Clone)]
pub struct RedisBackend(Arc<Inner>);

impl RedisBackend {
    /// Connects with the default options and with those that the URL sets.
    ///
    /// | URL | server |
    /// |---|---|
    /// | `redis://[[user:]password@]host[:6379][/database]` | one server |
    /// | `redis-cluster://[[user:]password@]host[:6379]?node=host:port&…` | a cluster, found from any of its nodes; [how locks spread over it](crate::guide#cluster) |
    /// | `redis-sentinel://[[user:]password@]host[:26379][/database]?sentinelServiceName=…` | the master that the Sentinels name |
    /// | `redis+unix:///path` | a Unix socket, with the feature `unix-sockets` |
    ///
    /// `rediss…` is the same over TLS and needs the feature `tls`. `valkey` can replace `redis` in each scheme.
    /// Percent-encode special characters, also in user name and password.
    ///
    /// Options follow as `?name=value&…`. An option has the name of the method of [`RedisOptions`] that sets
    /// it. Times are whole milliseconds, switches are `true` or `false`.
    ///
    /// | parameter | what it sets | default |
    /// |---|---|---|
    /// | `key_prefix` | the start of all record names; write `{app}` as it is or as `%7Bapp%7D`; [never the beginning of another prefix up to a colon](RedisOptions::with_key_prefix) | `syncguard` |
    /// | `operation_timeout_ms` | the longest an operation may take | 2000 |
    /// | `connect_timeout_ms` | the longest connecting may take in all | 5000 |
    /// | `connections` | how many connections, 1 to 64 | 1 |
    /// | `wait_replicas` | how many replicas must have a lock before it counts; 0 is none | 0 |
    /// | `wait_replicas_timeout_ms` | how long to wait for them, up to half of the operation timeout | 500 |
    /// | `strict_durability` | refuse a server that can lose locks | `false` |
    /// | `cleanup_in_is_locked` | let `is_locked` delete expired locks | `false` |
    /// | `dispose_timeout_ms` | the longest a release at the end of a guard may take | 5000 |
    /// | `holder` | a label of the holder, for people; empty means none | host name and process id |
    /// | `note` | a note beside the label | none |
    /// | `sslrootcert` | for `rediss`: a PEM file of the authorities to trust, or `system` | `system` |
    /// | `sslcert` | for `rediss`, a PEM file of a [client certificate](RedisOptions::with_client_certificate) | none |
    /// | `sslkey` | a PEM file of its key, which others must not be able to read | none |
    /// | `node` | clusters and Sentinel: one more address; may be repeated | none |
    /// | `sentinelServiceName` | Sentinel: the name of the master | |
    /// | `sentinelUsername` | Sentinel: the user name for the Sentinels themselves | none |
    /// | `sentinelPassword` | Sentinel: the password for the Sentinels themselves | none |
    ///
    /// A URL cannot set [`with_on_release_error`](RedisOptions::with_on_release_error) and
    /// [`with_credentials`](RedisOptions::with_credentials), which take code.
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

    /// Connects with these options, and logs how durable the server is. The URL has the form that
    /// [`connect`](Self::connect) describes, and overrides the options.
    ///
    /// A connection that is lost, silent or at the wrong server is replaced by the next operation, in its own runtime:
    /// see [when the server is away](crate::guide#when-the-server-is-away).
    ///
    /// # Errors
    ///
    /// - `InvalidArgument` for a bad URL or option, a URL that needs a feature which is not enabled, a single-server
    ///   URL of a cluster node, a server that [strict durability](RedisOptions::with_strict_durability) refuses,
    ///   and a port that speaks TLS although the URL says plain text, or the reverse. The message says what is
    ///   allowed and shows nothing of the URL.
    /// - `AuthFailed` if the server refuses the credentials, if its certificate cannot be trusted, or if it
    ///   wants a client certificate.
    /// - `ServiceUnavailable` or `NetworkTimeout` if the server cannot be reached, or has not answered all
    ///   questions of this call within the [connect timeout](RedisOptions::with_connect_timeout).
    ///
    /// # Cancel safety
    ///
    /// Safe: connections opened so far are closed.
    pub async fn connect_with(url: &str, options: RedisOptions) -> Result<Self, LockError> {
        let (config, options) = url::parse(url, options)?;
        options.check()?;
        let layout = Layout::new(&options.key_prefix, config.server.is_clustered())?;
        let (hosts, tls) = (config.server.hosts(), config.uses_tls());
        let connect_timeout = options.connect_timeout;
        let name = ConnectionName::of(options.client.clone().client_state()?.holder());
        let connecting = async {
            let servers = UrlServers::new(config, &options, name);
            let opening = try_join_all((0..options.connections).map(|_| servers.open(None, false)));
            let patience = connect_timeout / 2;
            let services = probe::open_or_explain(hosts, tls, patience, opening).await?;
            let backend = Self::over(services, Some(Arc::new(servers)), layout, options)?;
            backend.0.refuse_cluster_node().await?;
            backend.0.check_durability().await?;
            backend.0.ask_times().await;
            Ok(backend)
        };
        tokio::time::timeout(connect_timeout, connecting)
            .await
            .unwrap_or_else(|_| Err(error::connect_timed_out()))
    }

    /// Uses a client of the program, which may still be connecting. The client may be of a single server, a
    /// cluster or Sentinel. The program goes on using it, and it still manages its own connection. This call sends nothing;
    /// with [strict durability](RedisOptions::with_strict_durability), the first acquire asks the server.
    ///
    /// Give the client a reconnect policy without a limit of attempts. Its attempts for commands, timeouts and fail-fast
    /// settings do not matter here. What the backend cannot do over such a client is in
    /// [when the server is away](crate::guide#when-the-server-is-away).
    ///
    /// On a cluster with [shards](crate::guide#cluster), the client needs `max_redirections: 0` in its
    /// `ConnectionConfig`: when fred 10.1 follows an `ASK`, it takes the answer to another command for its own, and
    /// mixes up all later answers. The backend finds moved slots without redirections.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a bad option, and for a cluster client that follows redirections if the prefix has no
    /// hash tag.
    pub fn from_client(client: Client, options: RedisOptions) -> Result<Self, LockError> {
        Self::over_clients(&[client], options)
    }

    /// Uses a pool of the program; see [`from_client`](Self::from_client).
    ///
    /// # Errors
    ///
    /// As [`from_client`](Self::from_client).
    #[expect(clippy::needless_pass_by_value, reason = "it is handed over, as a client is")]
    pub fn from_pool(pool: Pool, options: RedisOptions) -> Result<Self, LockError> {
        Self::over_clients(pool.clients(), options)
    }

    /// Returns whether the database has records without the prefix of these locks, such as those of another program, whose
    /// `FLUSHDB` [takes the locks and the fences](crate::guide#shared-databases). Looks at some thousand names, and needs
    /// the right to `SCAN`.
    ///
    /// # Errors
    ///
    /// The store's failures; `AuthFailed` without the right.
    ///
    /// # Cancel safety
    ///
    /// Safe: the call only reads.
    pub(crate) async fn has_other_records(&self) -> Result<bool, LockError> {
        neighbors::has_any(&self.0).await
    }

    /// The state of signals: whether waiters [hear of releases](crate::guide#waiting). Meant for health checks; sends nothing.
    #[must_use]
    pub fn signals(&self) -> SignalStatus {
        self.0.signals.status()
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.0
    }

    /// Uses connections that are open. With `servers`, lost ones are replaced.
    pub(crate) fn over(
        services: Vec<Box<dyn Service>>,
        servers: Option<Arc<dyn Servers>>,
        layout: Layout,
        options: RedisOptions,
    ) -> Result<Self, LockError> {
        let connect_timeout = options.connect_timeout;
        let opener = servers.map(|servers| Opener { servers, connect_timeout });
        let (sections, timeout) = (layout.sections().len(), options.command_timeout);
        let connections = Connections::new(services, opener.as_ref(), sections, timeout);
        Ok(Self(Arc::new(Inner::new(connections, layout, options)?)))
    }

    fn over_clients(clients: &[Client], options: RedisOptions) -> Result<Self, LockError> {
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
        let service = |client| -> Box<dyn Service> {
            Box::new(FredClient::of_program(client, options.command_timeout))
        };
        Self::over(clients.iter().map(service).collect(), None, layout, options)
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
        // One script extends the locks of one section.
        if let Some(section) = self.0.layout.likely(request.key_hint.as_ref()) {
            let (inner, number) = (Arc::clone(&self.0), section.index);
            let extend_many =
                move |requests| extend::extend_many(Arc::clone(&inner), number, requests);
            if let Some(result) = self.0.extends.extend(number, &request, extend_many).await {
                return result;
            }
        }
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
        let found = match &request.by {
            LookupBy::Key(key) => cancel::read(cancellation, lookup::by_key(&self.0, key)).await,
            LookupBy::LockId(lock_id) => {
                let hint = request.key_hint.as_ref();
                let read = Box::pin(lookup::by_lock_id(&self.0, *lock_id, hint));
                cancel::read(cancellation, read).await
            }
        };
        found.map_err(|error| request.by.name_in(error))
    }

    async fn watch(&self, request: WatchRequest) -> Option<KeyWatch> {
        let section = self.0.layout.section_of(&request.key).ok()?;
        let name = section.lock_name(&request.key).ok()?;
        self.0.signals.watch(section.slot, &name).await
    }

    async fn health(&self) -> Health {
        let report = async {
            let report = durability::report(&self.0.connections, &self.0.layout).await?;
            // A user without the right to SCAN gets no answer here.
            let has_others = self.has_other_records().await.is_ok_and(|others| others);
            Ok((report, has_others))
        };
        let describe = |health: &mut Health, (report, has_others): (DurabilityReport, bool)| {
            health::describe(health, &self.0, &report, has_others);
        };
        reported_health(self, || self.signals(), report, describe).await
    }

    fn inventory(&self) -> Option<Inventory> {
        Some(Inventory::new(self.clone()))
    }

    fn capabilities(&self) -> BackendCapabilities {
        BackendCapabilities::new::<Fence>("redis", TimeAuthority::Server).with_fence_windows()
    }

    fn client_state(&self) -> &ClientState {
        &self.0.client_state
    }
}

impl cancel::Settle for RedisBackend {
    type VoidAfter = Timestamp;

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
