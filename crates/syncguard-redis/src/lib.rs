//! Locks in Redis 6.2 or newer, and in Valkey: one script and one round trip for each operation.
//!
//! Everything of the contract is re-exported here, so this crate is all a Redis user needs.
//!
//! ```toml
//! [dependencies]
//! syncguard-redis = { version = "0.1", features = ["tls"] } # `tls` for rediss:// alone
//! tokio = { version = "1", features = ["macros", "rt-multi-thread"] }
//! ```
//!
//! ```no_run
//! use std::time::Duration;
//! use syncguard_redis::{LockConfig, RedisBackend, lock};
//!
//! # async fn run() -> Result<(), syncguard_redis::LockError> {
//! let backend = RedisBackend::connect("redis://localhost:6379").await?;
//! let report = LockConfig::new("job:report").with_ttl(Duration::from_secs(60));
//! let fence = lock(&backend, report, async |held| held.fence()).await?;
//! # Ok(())
//! # }
//! ```
//!
//! All options can stand in the URL, as in `redis://localhost?key_prefix=app&strict_durability=true`:
//! [`RedisBackend::connect`] has the table.
//!
//! A client that the program already has does as well: [`RedisBackend::from_client`] and
//! [`RedisBackend::from_pool`] take those of [`fred`], single, cluster or Sentinel. Whatever they are
//! configured with, this backend sends each script once and waits no longer than its own
//! [command timeout](RedisOptions::with_command_timeout).
//!
//! # When the server is away
//!
//! Nothing queues up: while there is no connection, every operation fails at once with
//! `ServiceUnavailable`. A call that was on its way when the connection broke, or that got no answer
//! in time, fails with [`is_outcome_unknown`](LockError::is_outcome_unknown). Connections come back by
//! themselves, at the latest a second after the server.
//!
//! What was sent cannot be taken back, and a server that was stopped carries it out when it goes on. So
//! each acquire, extend and release has a deadline in the server's own time: the end of the command
//! timeout. A server that gets it later writes nothing. Hence:
//!
//! - An acquire of unknown outcome, also one whose future was dropped, is released in the background
//!   until the server says, past the deadline, that there is no lock. Then there will be none.
//! - Releases that meet an outage are tried again, for as long as the lock may live, once a second at
//!   least after the server is back. [`ClientState::clean_up`](contract::ClientState::clean_up) tells how much is left to do.
//! - An extend of a guard changes only the expiry that the guard knows of, so one that was overtaken by a
//!   later one changes nothing. An [`ExtendRequest`](contract::ExtendRequest) made by hand does so if it
//!   [says](contract::ExtendRequest::with_expected_expiry) which one it expects.
//!
//! The server's time is learned from connecting and from the answers; over a client of the program, the
//! first write asks for it. Where the clock was set forward, the server refuses the next write, and it is
//! sent once more. Where it was set back, a deadline is too late by as much until the next answer.
//!
//! # Waiting
//!
//! Whoever waits for a lock hears when it is released, extended or over, whoever did it: this library, the
//! TypeScript library, `redis-cli`. The server tells by client-side caching (`CLIENT TRACKING`, Redis 6 and
//! Valkey), so a release costs nothing for it, and whoever does not wait pays nothing.
//!
//! Signals come over **one more connection for each backend** and server, in RESP3, which is opened for the first one that
//! waits, and closed ten seconds after the last one. It goes where the backend's own connections go, also over
//! a client of the program: to the same server, to the master that the Sentinels name, to each node of a cluster
//! that has a lock somebody waits for. It lives on the runtime of the one who waited first; when that ends, the next one
//! opens another.
//!
//! Where there is no such connection, because the server or a proxy does not speak RESP3, because an access
//! rule forbids it, or because it is lost, waiting goes on by looking from time to time. The log says so
//! once, and once when it is over. It is tried again by whoever waits, with pauses of up to five seconds. A
//! connection that is silent is found out within 7 s. [`RedisBackend::signals`] and the durability report tell
//! how it stands.
//!
//! The server remembers what a connection has asked for until it changes, in a table of its own
//! (`tracking-table-max-keys`, a million by default). A key that somebody has waited for stays there until it is
//! locked or released the next time. A server that has to forget keys says of them that they have changed; a key that
//! has not is then polled for five seconds, before it is watched again.
//!
//! # What the server must be
//!
//! Locks are as durable as the server. [`RedisBackend::durability_report`] says what it found, and
//! connecting logs it:
//!
//! - **Persistence.** Fences grow across a crash only with the append-only file (`appendonly yes`,
//!   `appendfsync everysec` or `always`). With snapshots alone, a crash takes counters back;
//!   with `everysec` a loss of power takes back a second, and a kill of the server while its disk is slow up
//!   to two.
//! - **Eviction.** `maxmemory-policy noeviction`; every other policy may drop a held lock.
//! - **Failover.** Replication is asynchronous: a replica that becomes master may not know the newest
//!   locks and fences. [`RedisOptions::with_wait_replicas`] makes a lock count only when replicas have
//!   it. That lowers the risk; a replica that missed it may still be the one that is promoted.
//!
//! [`RedisOptions::with_strict_durability`] turns the report's findings into errors.
//!
//! **The program has to trust the server**, and every proxy on the way to it. The driver decodes a reply within a reply
//! by calling itself, without a limit: a hostile server that answers with some thousand arrays, one within the other,
//! overflows the stack, which ends the process. Redis and Valkey send no such reply on their own. Where somebody could
//! take the server's place on the network, use [TLS](#tls).
//!
//! # TLS
//!
//! `rediss://` URLs need the feature `tls`: rustls with aws-lc-rs. Certificate and name of the server are
//! verified, by the authorities that the system trusts, or Mozilla's on a system that has none. The
//! variable `SSL_CERT_FILE` names a file of others, for the whole program. For this backend alone,
//! `?sslrootcert=/path.pem` does, or `RedisOptions::with_root_certificate`.
//!
//! A certificate that cannot be trusted is `AuthFailed`, and so is a server that wants one of the client
//! (`tls-auth-clients`, which is on unless Redis is told otherwise); the message says what to do. If
//! connecting fails, or takes half of its timeout, the server is asked in the other language, by a `PING` in
//! plain text or by a `ClientHello`. So the wrong kind of port is an `InvalidArgument` that says so, and not a
//! server that seems to be away. Nothing else ever goes out in plain text.
//!
//! # Cluster
//!
//! All records of a lock must be in one slot of the cluster, and so on one node. The key prefix says how the
//! locks are spread:
//!
//! - **Without a hash tag**, as `app`: over 64 shards, and with them over all masters. This is the layout to take,
//!   and [`KeyLayout::Sharded`] in the report and in `Debug`. Each shard has a slot of its own: `{app:00}` to
//!   `{app:63}`. Which shard a key is in never changes.
//! - **With a hash tag**, as `{app}`: all in one slot, and so on one node. Take it for locks that clients of the
//!   TypeScript library share, which knows no shards, or that a transaction of yours touches together with
//!   records under the same tag.
//!
//! The two have different names and know nothing of each other, so every program of a fleet has to use the same
//! prefix. A client of a single server that turns out to be a node of a cluster is refused with an untagged
//! prefix: it would look for the locks in another place. A prefix with a brace and no tag is refused on a
//! cluster. Whoever moves from a single server to a cluster has new names, and fences that start anew: raise the
//! counters, or take new keys where the old fences were written down.
//!
//! A guard knows its key, so its operations are one script on one node. What has only a lock id, such as a
//! [`ReleaseRequest`](contract::ReleaseRequest) without a [key hint](contract::ReleaseRequest::with_key_hint), has to ask all 64 shards: they are
//! asked at once, which is one round trip to each node and 64 scripts. So is a lock that is not where its hint
//! says, as when it is over. While one of the nodes does not answer, a lock that was not found on the others is an
//! error, never "not found".
//!
//! When a slot moves to another node, its locks go on as soon as it has arrived. While it moves, keys of this
//! slot that are not locked yet fail with `ServiceUnavailable`: fred 10.1 does not follow `ASK`. When a master
//! fails, its locks are back when the cluster has made a replica the master, and those of other nodes may fail
//! meanwhile: fred has one task for all nodes, and looks for the new master with it. A node that is silent is
//! looked for after the first operation that has waited in vain.
//!
//! Over a cluster client of the program with a tagged prefix, fred sends a script a second time should its node
//! leave the cluster meanwhile, and the first may be carried out after the second. An acquire or extend that meets
//! such a change fails with `ServiceUnavailable` and an unknown outcome, and what it was granted is given back; a
//! release may answer "not found" for a lock it has just freed. Connections that this library opens send each
//! script to one node, and so do clients with `max_redirections: 0`, which the shards
//! [need](RedisBackend::from_client).
//!
//! With [`with_wait_replicas`](RedisOptions::with_wait_replicas), the replicas of the node with the lock are waited for. The durability
//! report is of all masters that have locks of this prefix, and says the worst of each. Signals come over one connection
//! to each node that has a lock somebody waits for.
//!
//! The shard of a key, for other programs that want to find its records: the first byte of the SHA-256 of
//! `<prefix>:<key>` modulo 64. A name of more than 974 bytes is hashed before, as a lock's name would be.
//!
//! ```console
//! $ echo $((0x$(printf %s app:job:1 | sha256sum | cut -c1-2) % 64))
//! 53
//! ```
//!
//! # Access rules
//!
//! With Redis ACLs, this is what a user needs for the prefix `app` (the keys of a tagged prefix read
//! the same, `~{app}:*`):
//!
//! ```text
//! ACL SETUSER locks on >password resetkeys ~app:* resetchannels nocommands
//!   +evalsha +eval +get +set +incr +decr +del +pexpire +time +ping
//!   +info +config|get +client|tracking
//! ```
//!
//! For the sharded layout:
//!
//! ```text
//! ACL SETUSER locks on >password resetkeys ~{app:* resetchannels nocommands
//!   +evalsha +eval +get +set +incr +decr +del +pexpire +time +ping
//!   +info +config|get +client|tracking +cluster|slots +cluster|info
//! ```
//!
//! To [list locks and counters](inventory::Inventory) a user needs `ACL SETUSER locks +scan` as well.
//!
//! `INFO` and `CONFIG GET` are only for the durability report, which says "unverified" without
//! them. `CLIENT TRACKING` is for [signals](#waiting), and without it those who wait look from time to time.
//! `WAIT` is needed with replicas to wait for; `CLUSTER SLOTS` and `CLUSTER INFO` on a cluster; `ROLE` behind
//! Sentinel.
//!
//! # Looking over all locks
//!
//! Redis keeps no order of its keys and no list of those with a prefix. So the first page of a
//! [listing](inventory::Inventory) is a sweep: `SCAN` over all keys of the database, 1000 at a time, with other commands in
//! between. The names it has found stay in the request for the next page, in the program, in the order of the keys: up to
//! 100 000, and a listing of more sweeps again when those are used up. Each page then reads its records, 200
//! in a script, with one at least for each shard. Each of these steps takes the [command timeout](RedisOptions::with_command_timeout) at most; the
//! sweep as a whole has no limit of its own: drop its future to give it up.
//!
//! Redis promises that a sweep shows each key that is there from its beginning to its end, and that is what
//! a listing promises of locks. If another server has taken the place of the first one meanwhile, the sweep
//! begins anew; a user without `INFO` is not told. On a cluster, all masters that have locks are swept, and anew if
//! one of their shards has moved meanwhile.
//!
//! With a key prefix of more than 227 bytes some names are hashed: a listing of locks then looks at all
//! records under the prefix, and one of counters is refused.
//!
//! # In logs
//!
//! Neither this crate nor fred 10.1 logs a key, a lock id or a password, at any level: fred names
//! commands, not what they carry. Its feature `network-logs` changes that, for every client in the
//! program and whoever turns it on: then everything sent and received is logged at `TRACE`.
//!
//! # What is stored
//!
//! For the key `k` and the prefix `app`: the lock as JSON under `app:k`, the name of the lock under
//! `app:id:<lock id>`, and the last fence under `app:fence:app:k`; in the sharded layout with the shard's tag, such as
//! `{app:06}`, in the place of `app`. The first two expire with the lock,
//! the counter never. Names of up to 1000 bytes are as they read; longer ones are hashed. It is what
//! the TypeScript library stores, and both share their locks.
//!
//! | field of the JSON | what it is |
//! |---|---|
//! | `key` | the user's key in NFC |
//! | `lockId` | the lock id |
//! | `fence` | the fence, 15 digits as a text |
//! | `acquiredAtMs`, `expiresAtMs` | Unix time in milliseconds |
//! | `holder` | the label of the [holder](contract::Holder), empty if it is turned off, behind a tab if the process hears no signals; TypeScript and older versions of this library do not write this field |
//! | `note` | the note of the holder, if there is one |
//!
//! Keys that would be records of others are refused with `InvalidArgument`: `fence:app:…`, and `id:` followed
//! by 22 base64url characters (`A-Z a-z 0-9 - _`). With a prefix of 228 bytes or more, so are keys of exactly
//! 22 base64url characters, because a counter's name can be a hash of that form then. Nothing else is.
//!
//! No prefix may be the beginning of another one up to a colon, as `app` is of `app:billing`: see
//! [`with_key_prefix`](RedisOptions::with_key_prefix).
//!
//! # More
//!
//! The guide in the documentation of the `syncguard` crate (its module `guide`) has core concepts, a fenced
//! write for Redis, the checklist for production, and alerts.

// On docs.rs, each item says which feature it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc(html_root_url = "https://docs.rs/syncguard-redis/latest")]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod acquire;
mod backend;
mod client;
mod cluster;
mod config;
mod driver;
mod durability;
mod early_timer;
mod error;
mod everywhere;
mod extend;
#[cfg(feature = "test-util")]
#[doc(hidden)]
pub mod fuzzing;
mod inner;
mod is_locked;
mod layout;
mod listed;
mod listing;
mod lookup;
mod names;
mod release;
mod reply;
mod scripts;
mod servers;
mod settle;
mod signals;
mod speech;
mod sweep;
#[cfg(feature = "tls")]
mod tls;
mod url;
mod words;

pub use fred;
pub use syncguard_core::*;

pub use self::backend::RedisBackend;
pub use self::config::{RedisOptions, WaitReplicas};
pub use self::durability::{
    AppendSync, DurabilityReport, DurabilityRisk, Eviction, Persistence, ServerRole,
};
pub use self::layout::KeyLayout;

// So that what people see first compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
