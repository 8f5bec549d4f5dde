//! For authors of backends: the parameters of a backend's URL.
//!
//! `scheme:…?name=value&…`. The driver reads the part before the question mark. The
//! parameters are the options of the backend, and options that its driver reads. All backends read
//! the parameters by the same rules:
//!
//! - An option has the name of the method that sets it in code; a duration is a whole number of
//!   milliseconds and its name ends in `_ms`; a switch is `true` or `false`.
//! - Values are percent-decoded; a `+` is a plus sign.
//! - An unknown parameter is an error, and so is a parameter that is given twice.
//! - The URL overrides the code, so that a deployment can be tuned without a build.
//!
//! No message quotes the URL, because a text in the wrong place may be a password.
//!
//! ```
//! use std::time::Duration;
//! use syncguard_core::authoring::backend_url::BackendUrl;
//!
//! let url = BackendUrl::parse("etcd://host:2379?lease_timeout_ms=1500&tls=require")?;
//! url.expect_only(&[&["lease_timeout_ms", "key_prefix"], &["tls"]], &[])?;
//! assert_eq!(url.millis("lease_timeout_ms")?, Some(Duration::from_millis(1500)));
//! assert_eq!(url.text("key_prefix")?, None);
//! // The driver's own parameters are passed on unchanged.
//! assert_eq!(url.with_only(&["tls"]), "etcd://host:2379?tls=require");
//! # Ok::<(), syncguard_core::LockError>(())
//! ```

use std::fmt::{self, Display};
use std::net::Ipv6Addr;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::value::{LockError, Ttl, is_visible};

/// The parameters of TLS, which have the names that libpq gives them.
pub const TLS: [&str; 3] = [ROOTS, CERTIFICATE, KEY];
/// The file of the authorities to trust.
pub const ROOTS: &str = "sslrootcert";
/// The file of the client certificate.
pub const CERTIFICATE: &str = "sslcert";
/// The file of its key.
pub const KEY: &str = "sslkey";

/// A URL, split into its parameters. `Debug` shows no part of the URL.
pub struct BackendUrl<'a> {
    base: &'a str,
    /// Names and values, not decoded.
    parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> BackendUrl<'a> {
    /// Splits a URL. [`expect_only`](Self::expect_only) checks the names of the parameters.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for white space, control and invisible characters, for a parameter without a value,
    /// and for an `@` or a `#` after the question mark: a password with a question mark that is not encoded
    /// would be taken for parameters.
    pub fn parse(url: &'a str) -> Result<Self, LockError> {
        if url.chars().any(is_unreadable) {
            return Err(LockError::invalid_argument(
                "the URL has white space, a control character or an invisible one in it; such characters are \
                 percent-encoded, and a line break at the end or a byte order mark at the beginning has to go",
            ));
        }
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        if query.contains(['@', '#']) {
            return Err(LockError::invalid_argument(
                "the URL has an @ or a # after a question mark; write @ as %40, # as %23, and a ? in a \
                 user name or password as %3F",
            ));
        }
        let mut parameters = Vec::new();
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            let number = parameters.len() + 1;
            parameters.push(parameter.split_once('=').ok_or_else(|| {
                LockError::invalid_argument(format!(
                    "parameter {number} of the URL has no value; parameters are name=value, with & between them"
                ))
            })?);
        }
        Ok(Self { base, parameters })
    }

    /// Refuses parameters that are in none of these lists, and parameters that are given twice, except for those in `lists`.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`, with the allowed names.
    pub fn expect_only(&self, allowed: &[&[&str]], lists: &[&str]) -> Result<(), LockError> {
        let names = || allowed.iter().copied().flatten().chain(lists).copied();
        for (index, (name, _)) in self.parameters.iter().enumerate() {
            // The name from our own list may be printed; the name in the URL may not.
            let Some(known) = names().find(|known| known == name) else {
                let mut names: Vec<&str> = names().collect();
                names.sort_unstable();
                let of_others = OF_OTHER_DRIVERS
                    .split_ascii_whitespace()
                    .find(|other| other.eq_ignore_ascii_case(name));
                let which = match of_others {
                    Some(other) => format!("the parameter {other} of the URL is not known here"),
                    None => format!("parameter {} of the URL is not known", index + 1),
                };
                return Err(LockError::invalid_argument(format!(
                    "{which}; allowed are: {}",
                    names.join(", ")
                )));
            };
            let twice = self.parameters[..index].iter().any(|(other, _)| other == name);
            if twice && !lists.contains(name) {
                return Err(LockError::invalid_argument(format!(
                    "the URL has the parameter {known} more than once"
                )));
            }
        }
        Ok(())
    }

    /// Refuses the parameters of [`TLS`] in a URL that is not for it. `with_tls` is the start of one that is.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for the first of them.
    pub fn expect_no_tls(&self, with_tls: &str) -> Result<(), LockError> {
        let name = TLS.into_iter().find(|name| self.has(name));
        name.map_or(Ok(()), |name| {
            Err(LockError::invalid_argument(format!(
                "the parameter {name} of the URL needs TLS, and so a URL that starts with {with_tls}"
            )))
        })
    }

    /// The text before the first colon; empty without a colon.
    #[must_use]
    pub fn scheme(&self) -> &'a str {
        self.base.split_once(':').map_or("", |(scheme, _)| scheme)
    }

    /// The text before the question mark.
    #[must_use]
    pub fn base(&self) -> &'a str {
        self.base
    }

    /// The text between the first colon and the question mark, percent-decoded: for a path.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a percent sign without two hexadecimal digits, or a result that is not UTF-8.
    pub fn after_scheme(&self) -> Result<String, LockError> {
        let raw = self.base.split_once(':').map_or("", |(_, after)| after);
        decode(raw).map_err(|allowed| {
            LockError::invalid_argument(format!("the path in the URL must be {allowed}"))
        })
    }

    /// True if the URL has a parameter with this name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.raw(name).next().is_some()
    }

    /// A text, percent-decoded.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a percent sign without two hexadecimal digits, or a result that is not UTF-8.
    pub fn text(&self, name: &str) -> Result<Option<String>, LockError> {
        self.raw(name).next().map(|raw| decoded(name, raw)).transpose()
    }

    /// The texts of a parameter that may be given several times.
    ///
    /// # Errors
    ///
    /// As [`text`](Self::text).
    pub fn texts(&self, name: &str) -> Result<Vec<String>, LockError> {
        self.raw(name).map(|raw| decoded(name, raw)).collect()
    }

    /// `true` or `false`.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for anything else.
    pub fn flag(&self, name: &str) -> Result<Option<bool>, LockError> {
        let flag = |raw: &str| match raw {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(wrong(name, "true or false")),
        };
        self.raw(name).next().map(flag).transpose()
    }

    /// A whole number in this range.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for anything else.
    pub fn number<T>(&self, name: &str, range: RangeInclusive<T>) -> Result<Option<T>, LockError>
    where
        T: TryFrom<u64> + PartialOrd + Display,
    {
        let number = |raw: &str| {
            let digits = raw.bytes().all(|byte| byte.is_ascii_digit()).then_some(raw);
            digits
                .and_then(|digits| digits.parse::<u64>().ok())
                .and_then(|number| T::try_from(number).ok())
                .filter(|number| range.contains(number))
                .ok_or_else(|| {
                    let (from, to) = (range.start(), range.end());
                    wrong(name, &format!("a whole number from {from} to {to}"))
                })
        };
        self.raw(name).next().map(number).transpose()
    }

    /// A duration in whole milliseconds, from 1 ms to 100 years.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for anything else.
    pub fn millis(&self, name: &str) -> Result<Option<Duration>, LockError> {
        let millis = self.number(name, Ttl::MIN.as_millis()..=Ttl::MAX.as_millis())?;
        Ok(millis.map(Duration::from_millis))
    }

    /// The URL with only these parameters, not decoded: for the driver. It may contain a
    /// password.
    #[must_use]
    pub fn with_only(&self, names: &[&str]) -> String {
        let mut url = self.base.to_owned();
        let mut separator = '?';
        for (name, value) in self.parameters.iter().filter(|(name, _)| names.contains(name)) {
            url.extend([separator]);
            url.extend([*name, "=", *value]);
            separator = '&';
        }
        url
    }

    fn raw(&self, name: &str) -> impl Iterator<Item = &'a str> {
        self.parameters.iter().filter(move |(other, _)| *other == name).map(|(_, value)| *value)
    }
}

impl fmt::Debug for BackendUrl<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackendUrl").finish_non_exhaustive()
    }
}

/// True for white space, and for characters that are not seen, which come along when a URL is copied.
fn is_unreadable(character: char) -> bool {
    character.is_whitespace() || !is_visible(character)
}

/// Parameters of libpq, JDBC, pools, and clients of Redis and SQLite, which URLs are copied with. Such a name may be
/// shown; any other unknown name may be a part of a password.
const OF_OTHER_DRIVERS: &str = "\
    _busy_timeout _foreign_keys _journal_mode _pragma _txlock application_name ApplicationName busy_timeout \
    cache channel_binding client_encoding client_name clientName connect_timeout connection_limit \
    connectTimeout currentSchema db dbname decode_responses dial_timeout encoding fallback_application_name \
    family foreign_keys gssencmode health_check_interval host hostaddr immutable insecure journal_mode \
    keepalives keepalives_count keepalives_idle keepalives_interval keepalives_retries krbsrvname \
    load_balance_hosts loginTimeout max_connections max_retries mode node nolock options passfile password \
    pgbouncer pool_max_conns pool_mode pool_size pool_timeout port preferQueryMode prepareThreshold protocol \
    read_timeout replication require_auth requiressl retry_on_timeout reWriteBatchedInserts schema search_path \
    sentinelPassword sentinelServiceName sentinelUsername service skip_verify socket_connect_timeout \
    socket_timeout socketTimeout ssl ssl_ca_certs ssl_cert_reqs ssl_certfile ssl_keyfile \
    ssl_max_protocol_version ssl_min_protocol_version sslaccept sslcert sslcompression sslcrl sslfactory \
    sslkey sslmode sslnegotiation sslpassword sslrootcert sslsni statement-cache-capacity statement_cache_size \
    statement_timeout target_session_attrs targetServerType tcp_user_timeout tcpKeepAlive timeout tls user \
    username vfs virtual_host write_timeout";

fn wrong(name: &str, allowed: &str) -> LockError {
    LockError::invalid_argument(format!("the parameter {name} of the URL must be {allowed}"))
}

fn decoded(name: &str, raw: &str) -> Result<String, LockError> {
    decode(raw).map_err(|allowed| wrong(name, allowed))
}

/// For a part of a URL before the question mark: percent-decodes it. `None` for a percent sign without two hexadecimal
/// digits, or a result that is not UTF-8.
#[must_use]
pub fn percent_decoded(raw: &str) -> Option<String> {
    decode(raw).ok()
}

/// For a part of a URL before the question mark: reads `host` or `host:port`, with an IPv6 address in square brackets;
/// `None` for anything else. So a character with a meaning in URLs does not get into a host: in `localhost:1@example.com`,
/// the host would be example.com.
#[must_use]
pub fn host_and_port(text: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match text.get(text.rfind(']').unwrap_or(0)..)?.rsplit_once(':') {
        None => (text, None),
        Some((_, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            let number = port.parse().ok().filter(|port| *port > 0)?;
            (text.get(..text.len() - port.len() - 1)?, Some(number))
        }
        Some(_) => return None,
    };
    let is_host = match host.strip_prefix('[') {
        Some(address) => address.strip_suffix(']')?.parse::<Ipv6Addr>().is_ok(),
        None => host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)),
    };
    (is_host && !host.is_empty()).then_some((host, port))
}

/// Sets an option to the value of a parameter, if the URL has that parameter.
pub fn set<T>(option: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *option = value;
    }
}

/// Percent-decodes a text. The crates for this are dependencies of the drivers, not of core. The error says what is
/// allowed.
fn decode(raw: &str) -> Result<String, &'static str> {
    let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
    let mut decoded = Vec::with_capacity(raw.len());
    let mut bytes = raw.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let (Some(high), Some(low)) = (digit(bytes.next()), digit(bytes.next())) else {
            return Err(
                "percent-encoded: two hexadecimal digits after each %, and %25 for a % itself",
            );
        };
        decoded.extend(u8::try_from(high * 16 + low));
    }
    String::from_utf8(decoded).map_err(|_| "UTF-8 when it is percent-decoded")
}
