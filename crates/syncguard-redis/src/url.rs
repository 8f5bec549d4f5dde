//! Reads a URL: the driver's configuration and this library's options.

use fred::types::config::Config;
use syncguard_core::LockError;
use syncguard_core::authoring::backend_url::{BackendUrl, set};

use crate::config::RedisOptions;
use crate::error::{self, Stage};

/// The options of this library. [`RedisBackend::connect`](crate::RedisBackend::connect) explains them.
const OPTIONS: &[&str] = &[
    "cleanup_in_is_locked",
    "connect_timeout_ms",
    "connections",
    "dispose_timeout_ms",
    "holder",
    "key_prefix",
    "note",
    "operation_timeout_ms",
    "sslcert",
    "sslkey",
    "sslrootcert",
    "strict_durability",
    "wait_replicas",
    "wait_replicas_timeout_ms",
];

/// The parameter for further addresses, which fred reads.
const NODE: &str = "node";

/// The parameters of a Sentinel URL that fred reads.
const SENTINEL: &[&str] = &["sentinelPassword", "sentinelServiceName", "sentinelUsername"];

/// The scheme of a URL.
struct Scheme {
    tls: bool,
    topology: Topology,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Topology {
    Single,
    Cluster,
    Sentinel,
    UnixSocket,
}

impl Scheme {
    fn parse(scheme: &str) -> Option<Self> {
        let rest = scheme.strip_prefix("redis").or_else(|| scheme.strip_prefix("valkey"))?;
        let (tls, suffix) = rest.strip_prefix('s').map_or((false, rest), |suffix| (true, suffix));
        let topology = match suffix {
            "" => Topology::Single,
            "-cluster" => Topology::Cluster,
            "-sentinel" => Topology::Sentinel,
            // TLS protects nothing on a Unix socket, which does not leave the machine.
            "+unix" if !tls => Topology::UnixSocket,
            _ => return None,
        };
        Some(Self { tls, topology })
    }
}

/// Reads a URL, which overrides these options.
pub(crate) fn parse(url: &str, options: RedisOptions) -> Result<(Config, RedisOptions), LockError> {
    let url = BackendUrl::parse(url)?;
    let scheme = Scheme::parse(url.scheme()).ok_or_else(|| {
        LockError::invalid_argument(
            "the URL names no Redis server; it starts with redis://, redis-cluster://, \
             redis-sentinel:// or redis+unix://, and with rediss for TLS",
        )
    })?;
    match scheme.topology {
        Topology::Single | Topology::UnixSocket => url.expect_only(&[OPTIONS], &[])?,
        Topology::Cluster => url.expect_only(&[OPTIONS], &[NODE])?,
        Topology::Sentinel => url.expect_only(&[OPTIONS, SENTINEL], &[NODE])?,
    }
    let config = config(&url, &scheme)?;
    let options = with_parameters(options, &url)?;
    if scheme.tls {
        return with_tls(config, options, &url);
    }
    url.expect_no_tls("rediss")?;
    Ok((config, options))
}

fn config(url: &BackendUrl<'_>, scheme: &Scheme) -> Result<Config, LockError> {
    // fred would take the rest for a fragment and cut a password off.
    if url.base().contains('#') {
        return Err(LockError::invalid_argument("the URL has a # in it; write it as %23"));
    }
    if url.texts(NODE)?.iter().any(|node| !is_host_and_port(node)) {
        return Err(LockError::invalid_argument("the parameter node of the URL must be host:port"));
    }
    if scheme.topology == Topology::Sentinel && !url.has("sentinelServiceName") {
        return Err(LockError::invalid_argument(
            "a redis-sentinel URL needs the name of the master, as in ?sentinelServiceName=mymaster",
        ));
    }
    if scheme.topology == Topology::Cluster && !matches!(database(url.base()), "" | "0") {
        return Err(LockError::invalid_argument("a cluster has one database only, number 0"));
    }
    if scheme.topology == Topology::UnixSocket && !cfg!(feature = "unix-sockets") {
        return Err(LockError::invalid_argument(
            "a redis+unix URL needs the feature `unix-sockets` of syncguard-redis or syncguard",
        ));
    }
    let after_login = url.base().rsplit('@').next().unwrap_or_default();
    if matches!(scheme.topology, Topology::Cluster | Topology::Sentinel)
        && after_login.contains(',')
    {
        return Err(LockError::invalid_argument(
            "the URL names one server, and each further one in a parameter: redis-cluster://a:6379?node=b:6379&node=c:6379",
        ));
    }
    let mut driver = SENTINEL.to_vec();
    driver.push(NODE);
    let driver = url.with_only(&driver);
    let driver = if scheme.tls { without_tls(&driver) } else { driver };
    Config::from_url(&driver).map_err(|error| {
        LockError::invalid_argument(
            "the Redis URL cannot be read; it looks like redis://user:password@host:6379/0, where \
             special characters in user name and password are percent-encoded",
        )
        .with_source(&error::from_driver(&error, Stage::Connecting))
    })
}

/// The URL without the `s` of `rediss`, because fred's own TLS is not used: see `tls.rs`.
fn without_tls(url: &str) -> String {
    let (scheme, rest) = url.split_once(':').unwrap_or((url, ""));
    let scheme = scheme.replacen("rediss", "redis", 1).replacen("valkeys", "valkey", 1);
    format!("{scheme}:{rest}")
}

#[cfg(feature = "tls")]
fn with_tls(
    mut config: Config,
    mut options: RedisOptions,
    url: &BackendUrl<'_>,
) -> Result<(Config, RedisOptions), LockError> {
    options.tls.read_url(url)?;
    config.tls = Some(crate::tls::connector(&options.tls)?.into());
    Ok((config, options))
}

#[cfg(not(feature = "tls"))]
fn with_tls(
    _: Config,
    _: RedisOptions,
    _: &BackendUrl<'_>,
) -> Result<(Config, RedisOptions), LockError> {
    Err(LockError::invalid_argument(
        "a rediss URL needs the feature `tls` of syncguard-redis or syncguard",
    ))
}

fn with_parameters(
    mut options: RedisOptions,
    url: &BackendUrl<'_>,
) -> Result<RedisOptions, LockError> {
    set(&mut options.key_prefix, url.text("key_prefix")?);
    set(&mut options.command_timeout, url.millis("operation_timeout_ms")?);
    set(&mut options.connect_timeout, url.millis("connect_timeout_ms")?);
    set(&mut options.connections, url.number("connections", 1..=64)?);
    set(&mut options.wait_replicas, url.number("wait_replicas", 0..=u8::MAX)?);
    let timeout = url.millis("wait_replicas_timeout_ms")?;
    if timeout.is_none() && options.wait_replicas == 0 {
        options.wait_replicas_timeout = None;
    }
    set(&mut options.wait_replicas_timeout, timeout.map(Some));
    set(&mut options.strict_durability, url.flag("strict_durability")?);
    set(&mut options.cleanup_in_is_locked, url.flag("cleanup_in_is_locked")?);
    options.client.read_url(url)?;
    Ok(options)
}

/// The part after the first slash behind the host.
fn database(base: &str) -> &str {
    let rest = base.split_once("://").map_or("", |(_, rest)| rest);
    rest.split_once('/').map_or("", |(_, database)| database)
}

/// Splits the text as fred does.
fn is_host_and_port(text: &str) -> bool {
    text.split_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fred::types::config::ServerConfig;
    use syncguard_core::ErrorCode;

    use super::*;
    use crate::config::WaitReplicas;

    fn refusal(url: &str) -> String {
        let error = parse(url, RedisOptions::new()).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error}");
        error.message().to_owned()
    }

    #[test]
    fn every_option_can_be_set() {
        let url = "redis://u:p%40@h:1/2?cleanup_in_is_locked=true&operation_timeout_ms=1000\
                   &connect_timeout_ms=20&connections=3&dispose_timeout_ms=40&holder=a%20b&note=&key_prefix=%7Bapp%7D\
                   &strict_durability=true&wait_replicas=2&wait_replicas_timeout_ms=50";
        let (config, options) = parse(url, RedisOptions::new()).unwrap();
        assert_eq!(config.password.as_deref(), Some("p@"));
        assert_eq!((config.username.as_deref(), config.database), (Some("u"), Some(2)));
        let millis = Duration::from_millis;
        let expected = RedisOptions::new()
            .with_cleanup_in_is_locked(true)
            .with_operation_timeout(millis(1000))
            .with_connect_timeout(millis(20))
            .with_connections(3)
            .with_dispose_timeout(millis(40))
            .with_holder("a b")
            .with_note("")
            .with_key_prefix("{app}")
            .with_strict_durability(true)
            .with_wait_replicas(2)
            .with_wait_replicas_timeout(millis(50));
        assert_eq!(format!("{options:?}"), format!("{expected:?}"));
        // The URL has all options; certificates have their own test.
        for name in OPTIONS.iter().filter(|name| !name.starts_with("ssl")) {
            assert!(url.contains(&format!("{name}=")), "{name}");
        }
    }

    #[test]
    fn the_url_wins_and_leaves_the_rest() {
        let code =
            RedisOptions::new().with_key_prefix("code").with_connections(2).with_wait_replicas(3);
        let (_, options) =
            parse("redis://h?key_prefix=url&wait_replicas_timeout_ms=7", code).unwrap();
        assert_eq!((options.key_prefix.as_str(), options.connections), ("url", 2));
        let timeout = Duration::from_millis(7);
        assert_eq!(options.wait(), Some(WaitReplicas { count: 3, timeout }));
        let (_, options) = parse("redis://h?wait_replicas=0", options).unwrap();
        assert!(options.wait().is_none() && options.check().is_ok());
    }

    #[test]
    fn the_drivers_own_parameters_go_on_working() {
        let (config, _) =
            parse("redis-cluster://h:1?node=i:2&key_prefix=%7Ba%7D&node=j:3", RedisOptions::new())
                .unwrap();
        assert_eq!(config.server.hosts().len(), 3);
        let sentinel = "valkey-sentinel://u:p@h?node=i:2&sentinelServiceName=m&sentinelUsername=s\
                        &sentinelPassword=t%40&connections=1";
        match parse(sentinel, RedisOptions::new()).unwrap().0.server {
            ServerConfig::Sentinel { hosts, service_name, username, password } => {
                assert_eq!((hosts.len(), service_name.as_str()), (2, "m"));
                assert_eq!((username.as_deref(), password.as_deref()), (Some("s"), Some("t@")));
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn bad_urls_are_refused_with_what_is_allowed() {
        for (url, says) in [
            ("", "redis://"),
            ("http://h", "redis://"),
            ("rediss+unix:///s", "redis://"),
            ("redis-clusters://h", "redis://"),
            ("redis:h", "looks like"),
            ("redis://", "looks like"),
            ("redis://h/x", "looks like"),
            ("redis://h/256", "looks like"),
            ("redis://u:pa/ss@h", "looks like"),
            ("redis://u:1#ss@h", "%23"),
            ("redis://u:pa?ss@h", "%3F"),
            ("redis://h?nodes=1", "allowed are: cleanup_in_is_locked, connect_timeout_ms"),
            // Without a cluster or Sentinel, fred would ignore these silently.
            ("redis://h?node=i:1", "not known"),
            ("redis://h?sentinelServiceName=m", "not known"),
            ("redis-cluster://h?sentinelServiceName=m", "not known"),
            ("redis-cluster://h/1", "number 0"),
            ("redis-cluster://h?node=i", "host:port"),
            ("redis-cluster://a:1,b:2,c:3", "redis-cluster://a:6379?node=b:6379&node=c:6379"),
            ("valkey-sentinel://u:p@a,b?sentinelServiceName=m", "?node=b:6379"),
            ("redis-sentinel://h", "?sentinelServiceName="),
            ("redis://h?connections=65", "from 1 to 64"),
            ("redis://h?wait_replicas=256", "from 0 to 255"),
            ("redis://h?sslrootcert=/nowhere/ca.pem", "starts with rediss"),
            ("redis://h?sslkey=/nowhere/key.pem", "sslkey of the URL needs TLS"),
        ] {
            assert!(refusal(url).contains(says), "{url}: {}", refusal(url));
        }
        assert!(parse("redis-cluster://h/0", RedisOptions::new()).is_ok());
    }

    #[test]
    fn what_needs_a_feature_says_which() {
        for url in
            ["rediss://h", "valkeys-cluster://h", "rediss-sentinel://h?sentinelServiceName=m"]
        {
            if cfg!(feature = "tls") {
                assert!(parse(url, RedisOptions::new()).unwrap().0.uses_tls(), "{url}");
            } else {
                assert!(refusal(url).contains("feature `tls`"), "{url}");
            }
        }
        assert!(!parse("redis://h", RedisOptions::new()).unwrap().0.uses_tls());
        let unix = parse("redis+unix:///run/redis.sock?key_prefix=a", RedisOptions::new());
        if cfg!(feature = "unix-sockets") {
            assert!(unix.is_ok());
        } else {
            assert!(unix.unwrap_err().message().contains("feature `unix-sockets`"));
        }
    }

    #[test]
    fn every_parameter_is_in_the_docs() {
        let docs = include_str!("backend.rs");
        for name in OPTIONS.iter().chain(SENTINEL).chain([&NODE]) {
            assert!(docs.contains(&format!("/// | `{name}` |")), "{name}");
        }
    }
}
