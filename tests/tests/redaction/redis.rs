//! Redis and fred.

use std::sync::Arc;
use std::time::Duration;

use syncguard_core::LockBackend as _;
use syncguard_core::contract::AcquireRequest;
use syncguard_redis::{RedisBackend, RedisOptions};
use syncguard_test_services::redis::{RedisCluster, RedisServer};

use crate::net::Net;
use crate::scenario::{
    Change, Handles, all_fail, locks, nothing_was_given_away, refused, secret, suite, turn,
};
use crate::watched::watched;

pub(crate) async fn says_nothing() {
    let net = Net::global();
    let password = secret();
    let server = RedisServer::builder().password(&password).start().expect("a Redis server");
    let (url, port) = (server.url(), server.port());
    assert!(url.contains(&password));
    let server = Arc::new(server);

    let mut handles = Vec::new();
    for cleanup in [true, false, true] {
        let options = RedisOptions::new().with_cleanup_in_is_locked(cleanup);
        handles.push(RedisBackend::connect_with(&url, options).await.expect("a backend"));
    }
    let outside = Arc::clone(&server);
    let change = move |key: &str, change| {
        let (name, value) = match change {
            Change::Counter(last) => {
                (format!("syncguard:fence:syncguard:{key}"), last.get().to_string())
            }
            Change::Spoilt => (format!("syncguard:{key}"), "not a lock".to_owned()),
        };
        outside.cli(&["SET", &name, &value]).is_ok()
    };
    suite(Handles::new(handles, change)).await;
    let options = RedisOptions::new().with_operation_timeout(Duration::from_secs(5));
    let options = options.with_connect_timeout(Duration::from_secs(5));
    let backend = RedisBackend::connect_with(&url, options.clone()).await.expect("a backend");
    net.read("a backend", &format!("{backend:?} {options:?}"));
    let backend = watched(net, backend);
    locks(&backend).await;
    server.cli(&["SCRIPT", "FLUSH"]).expect("an answer");
    locks(&backend).await;

    // Wrong credentials, and wrong URLs.
    let wrong = secret();
    for url in [
        format!("redis://:{wrong}@127.0.0.1:{port}"),
        format!("redis://{wrong}:{wrong}@127.0.0.1:{port}"),
        format!("redis://:{wrong}@127.0.0.1:port"),
        format!("redis://:{wrong}@127.0.0.1:1"),
        format!("redis+{wrong}://127.0.0.1:{port}"),
    ] {
        refused(RedisBackend::connect_with(&url, options.clone()).await);
    }

    // The user loses access to keys, then all rights, and then the server stops.
    server.cli(&["ACL", "SETUSER", "default", "resetkeys"]).expect("an answer");
    all_fail(&backend).await;
    server.cli(&["ACL", "SETUSER", "default", "-@all"]).expect("an answer");
    all_fail(&backend).await;
    drop(server);
    all_fail(&backend).await;
    nothing_was_given_away(&["fred"]).await;
}

/// On a cluster, fred has other log lines: about slots, nodes and redirections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_cluster_says_nothing() {
    let net = Net::global();
    let _turn = turn().await;
    let cluster = RedisCluster::start(3).expect("a Redis cluster");
    let options = RedisOptions::new().with_key_prefix("{canary}");
    let backend = RedisBackend::connect_with(&cluster.url(), options).await.expect("a backend");
    net.read("a backend", &format!("{backend:?}"));
    let backend = watched(net, backend);
    locks(&backend).await;

    // The slot moves: requests for missing names are redirected, and then requests for all names.
    let (owner, other, slot) = cluster.owner_and_other("{canary}").expect("an owner");
    cluster.begin_move(&slot, owner, other).expect("a move");
    let asked = AcquireRequest::new(secret(), Duration::from_secs(1)).expect("a request");
    backend.acquire(asked).await.expect_err("ASK, which fred does not follow");
    owner.cli(&["FLUSHALL"]).expect("an answer");
    cluster.end_move(&slot, other).expect("a move");
    locks(&backend).await;

    drop(cluster);
    all_fail(&backend).await;
    nothing_was_given_away(&["fred"]).await;
}
