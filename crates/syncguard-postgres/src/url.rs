//! Reads a URL: the driver's configuration, and this library's options.

use syncguard_core::LockError;
use syncguard_core::authoring::backend_url::{BackendUrl, CERTIFICATE, KEY, ROOTS, set};
use tokio_postgres::Config;
use tokio_postgres::config::SslMode;

use crate::config::PostgresOptions;

/// The options of this library, which [`PostgresBackend::connect`](crate::PostgresBackend::connect) explains.
const OPTIONS: &[&str] = &[
    "cleanup_in_is_locked",
    "connect_timeout_ms",
    "dispose_timeout_ms",
    "fence_table",
    "holder",
    "lock_table",
    "note",
    "operation_timeout_ms",
    "pool_size",
    "pool_wait_timeout_ms",
    "setup_schema",
    "signals",
    CERTIFICATE,
    KEY,
    ROOTS,
    "statement_timeout_ms",
    "strict_durability",
    "trusted_owner",
    "unprepared_statements",
    "upgrade_schema",
];

/// The parameters of tokio-postgres, and their values.
const DRIVER: &[(&str, &str)] = &[
    ("application_name", "a text"),
    ("channel_binding", "disable, prefer or require"),
    ("connect_timeout", "a whole number of seconds"),
    ("dbname", "a text"),
    ("keepalives", "0 or 1"),
    ("keepalives_idle", "a whole number of seconds"),
    ("keepalives_interval", "a whole number of seconds"),
    ("keepalives_retries", "a whole number"),
    ("load_balance_hosts", "disable or random"),
    ("options", "a text"),
    ("password", "a text"),
    (SSL_MODE, "disable, prefer or require; certificates are verified in any case"),
    ("sslnegotiation", "postgres or direct"),
    ("target_session_attrs", "any, read-write or read-only"),
    ("tcp_user_timeout", "a whole number of seconds"),
    ("user", "a text"),
];

/// The driver's parameters that may occur several times.
const DRIVER_LISTS: &[(&str, &str)] = &[
    ("host", "a host name or the folder of a Unix socket"),
    ("hostaddr", "IP addresses, with commas between them"),
    ("port", "port numbers, with commas between them"),
];

const SSL_MODE: &str = "sslmode";

/// The value of [`ROOTS`] for the authorities that the system trusts.
const SYSTEM: &str = "system";

/// The contents of a URL.
pub(crate) struct Parsed {
    pub(crate) config: Config,
    pub(crate) options: PostgresOptions,
    pub(crate) setup_schema: bool,
}

/// Reads a URL, whose parameters override these options.
pub(crate) fn parse(url: &str, options: PostgresOptions) -> Result<Parsed, LockError> {
    let url = BackendUrl::parse(url)?;
    if !url.base().starts_with("postgres://") && !url.base().starts_with("postgresql://") {
        return Err(unreadable());
    }
    url.expect_only(&[OPTIONS, &names(DRIVER)], &names(DRIVER_LISTS))?;
    if url.has("connect_timeout") && url.has("connect_timeout_ms") {
        return Err(LockError::invalid_argument(
            "the URL has connect_timeout (in seconds) and connect_timeout_ms; one of them is enough",
        ));
    }
    let upgrade = url.flag("upgrade_schema")?;
    Ok(Parsed {
        config: config(&url)?,
        options: with_parameters(options, &url)?,
        setup_schema: url.flag("setup_schema")?.or(upgrade).unwrap_or(false),
    })
}

fn config(url: &BackendUrl<'_>) -> Result<Config, LockError> {
    // The driver takes the first @ for the end of the password, and the rest for a host.
    if url.base().matches('@').count() > 1 {
        return Err(LockError::invalid_argument(
            "the URL has more than one @; write one that is part of a user name or password as %40",
        ));
    }
    // The driver's message can quote from the URL, so the parameters are tried one by one to find the bad one.
    url.base().parse::<Config>().map_err(|_| unreadable())?;
    let verify = matches!(url.text(SSL_MODE)?.as_deref(), Some("verify-full" | "verify-ca"));
    let mut driver = names(DRIVER);
    driver.extend(names(DRIVER_LISTS));
    driver.retain(|name| !(verify && *name == SSL_MODE));
    for (name, allowed) in DRIVER.iter().chain(DRIVER_LISTS) {
        if driver.contains(name) && url.with_only(&[name]).parse::<Config>().is_err() {
            return Err(LockError::invalid_argument(format!(
                "the parameter {name} of the URL must be {allowed}"
            )));
        }
    }
    let mut config: Config = url.with_only(&driver).parse().map_err(|_| unreadable())?;
    let trusts_the_system = url.text(ROOTS)?.as_deref() == Some(SYSTEM);
    if trusts_the_system
        && url.has(SSL_MODE)
        && config.get_ssl_mode() != SslMode::Require
        && !verify
    {
        // As libpq.
        return Err(LockError::invalid_argument(
            "sslrootcert=system needs sslmode=verify-full, or no sslmode",
        ));
    }
    // Without TLS nobody would see the client certificate.
    if verify || trusts_the_system || url.has(CERTIFICATE) && !url.has(SSL_MODE) {
        // `require` verifies certificates here.
        config.ssl_mode(SslMode::Require);
    }
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        return Err(LockError::invalid_argument(
            "the database URL names no host; it looks like postgres://user:password@host/database",
        ));
    }
    Ok(config)
}

fn with_parameters(
    mut options: PostgresOptions,
    url: &BackendUrl<'_>,
) -> Result<PostgresOptions, LockError> {
    set(&mut options.lock_table, url.text("lock_table")?);
    set(&mut options.fence_table, url.text("fence_table")?);
    set(&mut options.cleanup_in_is_locked, url.flag("cleanup_in_is_locked")?);
    options.client.read_url(url)?;
    set(&mut options.pool_wait_timeout, url.millis("pool_wait_timeout_ms")?);
    set(&mut options.operation_timeout, url.millis("operation_timeout_ms")?.map(Some));
    set(&mut options.statement_timeout, url.millis("statement_timeout_ms")?);
    set(&mut options.unprepared_statements, url.flag("unprepared_statements")?);
    set(&mut options.strict_durability, url.flag("strict_durability")?);
    set(&mut options.trusted_owner, url.text("trusted_owner")?);
    set(&mut options.schema_upgrade, url.flag("upgrade_schema")?);
    set(&mut options.signals.are_on, url.flag("signals")?);
    set(&mut options.pool_size, url.number("pool_size", 1..=10_000)?);
    set(&mut options.connect_timeout, url.millis("connect_timeout_ms")?);
    with_tls(options, url)
}

#[cfg(feature = "tls")]
fn with_tls(
    mut options: PostgresOptions,
    url: &BackendUrl<'_>,
) -> Result<PostgresOptions, LockError> {
    options.tls.read_url(url)?;
    Ok(options)
}

#[cfg(not(feature = "tls"))]
fn with_tls(options: PostgresOptions, url: &BackendUrl<'_>) -> Result<PostgresOptions, LockError> {
    if syncguard_core::authoring::backend_url::TLS.iter().any(|name| url.has(name)) {
        return Err(LockError::invalid_argument(
            "a certificate in the URL needs the feature `tls` of syncguard-postgres or syncguard",
        ));
    }
    Ok(options)
}

fn names(parameters: &[(&'static str, &str)]) -> Vec<&'static str> {
    parameters.iter().map(|(name, _)| *name).collect()
}

fn unreadable() -> LockError {
    LockError::invalid_argument(
        "the database URL cannot be read; it looks like postgres://user:password@host/database, where \
         special characters in user name and password are percent-encoded",
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use syncguard_core::ErrorCode;
    use tokio_postgres::config::{Host, TargetSessionAttrs};

    use super::*;
    use crate::settings::Settings;

    fn read(url: &str) -> Result<Parsed, LockError> {
        parse(url, PostgresOptions::new())
    }

    fn refusal(url: &str) -> String {
        let read = read(url).and_then(|parsed| Settings::new(parsed.options));
        let error = read.err().unwrap();
        assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error}");
        error.message().to_owned()
    }

    #[test]
    fn every_option_can_be_set() {
        let url = "postgres://u:p%40@h:1,i:2/d?cleanup_in_is_locked=true&connect_timeout_ms=10\
                   &dispose_timeout_ms=20&holder=a%20b&note=&fence_table=ops.f&lock_table=ops.l&pool_size=3\
                   &operation_timeout_ms=70&pool_wait_timeout_ms=30&setup_schema=true&signals=false&statement_timeout_ms=40\
                   &strict_durability=true&trusted_owner=the%20owner&unprepared_statements=true\
                   &upgrade_schema=true";
        let Parsed { config, options, setup_schema } = read(url).unwrap();
        assert_eq!(config.get_password(), Some(b"p@".as_slice()));
        assert_eq!((config.get_hosts().len(), config.get_ports()), (2, [1, 2].as_slice()));
        let millis = Duration::from_millis;
        let expected = PostgresOptions::new()
            .with_cleanup_in_is_locked(true)
            .with_dispose_timeout(millis(20))
            .with_holder("a b")
            .with_note("")
            .with_tables("ops.l", "ops.f")
            .with_pool_size(3)
            .with_connect_timeout(millis(10))
            .with_operation_timeout(millis(70))
            .with_pool_wait_timeout(millis(30))
            .with_statement_timeout(millis(40))
            .with_signals(false)
            .with_strict_durability(true)
            .with_trusted_owner("the owner")
            .with_unprepared_statements(true)
            .with_schema_upgrade(true);
        assert_eq!(format!("{options:?}"), format!("{expected:?}"));
        assert!(setup_schema);
        // The URL has every option; certificates have a test of their own.
        for name in OPTIONS.iter().filter(|name| !name.starts_with("ssl")) {
            assert!(url.contains(&format!("{name}=")), "{name}");
        }
    }

    #[test]
    fn the_url_wins_and_leaves_the_rest() {
        let code = PostgresOptions::new().with_tables("l", "f").with_strict_durability(true);
        let url = "postgresql://h?lock_table=m&strict_durability=false";
        let options = parse(url, code.clone()).unwrap().options;
        let expected = code.with_tables("m", "f").with_strict_durability(false);
        assert_eq!(format!("{options:?}"), format!("{expected:?}"));
    }

    #[test]
    fn the_drivers_own_parameters_go_on_working() {
        let url = "postgres:///d?user=u&password=p%26q&host=%2Frun&host=h&port=1&port=2&pool_size=1\
                   &options=-c%20geqo%3Doff&application_name=a+b&connect_timeout=7&sslmode=disable\
                   &target_session_attrs=read-write&keepalives=0";
        let config = read(url).unwrap().config;
        assert_eq!(config.get_password(), Some(b"p&q".as_slice()));
        assert_eq!(config.get_hosts(), [Host::Unix("/run".into()), Host::Tcp("h".to_owned())]);
        assert_eq!(config.get_ports(), [1, 2]);
        assert_eq!(config.get_options(), Some("-c geqo=off"));
        assert_eq!(config.get_application_name(), Some("a+b"));
        assert_eq!(config.get_connect_timeout(), Some(&Duration::from_secs(7)));
        assert_eq!(config.get_ssl_mode(), SslMode::Disable);
        assert_eq!(config.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
        assert!(!config.get_keepalives());
        for mode in [
            "sslmode=require",
            "sslmode=verify-ca",
            "sslmode=verify-full",
            "sslrootcert=system",
            "sslcert=c&sslkey=k",
        ] {
            let config = read(&format!("postgres://h?{mode}")).unwrap().config;
            assert_eq!(config.get_ssl_mode(), SslMode::Require);
        }
    }

    #[test]
    fn bad_urls_are_refused_with_what_is_allowed() {
        for (url, says) in [
            ("", "postgres://user"),
            ("postgres:h", "postgres://user"),
            ("host=h password=p", "white space"),
            ("host=h", "postgres://user"),
            ("postgres://", "no host"),
            ("postgres://u:p@h:port/db", "looks like"),
            ("postgres://u:p@h:99999/db", "looks like"),
            ("postgres://u:p@ss@h/db", "%40"),
            ("postgres://u:p?ss@h/db", "%3F"),
            ("postgres://h?ssl=true", "allowed are: application_name, channel_binding"),
            ("postgres://h?sslmode=on", "sslmode of the URL must be disable, prefer or require"),
            ("postgres://h?connect_timeout=1s", "a whole number of seconds"),
            ("postgres://h?connect_timeout=1&connect_timeout_ms=1", "one of them"),
            ("postgres://h?port=x", "port numbers"),
            ("postgres://h?pool_size=0", "from 1 to 10000"),
            ("postgres://h?lock_table=a-b", "bad table name"),
            ("postgres://h?lock_table=syncguard_fence_counters", "two tables"),
            ("postgres://h?setup_schema=1", "true or false"),
            ("postgres://h?pool_size=1&pool_size=2", "more than once"),
            ("postgres://h?sslkey=k", "needs both"),
            ("postgres://h?sslrootcert=system&sslmode=prefer", "verify-full"),
        ] {
            assert!(refusal(url).contains(says), "{url}: {}", refusal(url));
        }
    }

    #[test]
    fn every_parameter_is_in_the_docs() {
        let docs = include_str!("backend.rs");
        for name in OPTIONS.iter().copied().chain(names(DRIVER)).chain(names(DRIVER_LISTS)) {
            assert!(docs.contains(&format!("`{name}`")), "{name}");
        }
    }
}
