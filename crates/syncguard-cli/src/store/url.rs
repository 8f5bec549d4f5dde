//! Passwords in store URLs, and file paths as URLs.

use syncguard::authoring::backend_url::{BackendUrl, percent_decoded};

/// The part between `//` and the path, and its position.
fn authority(url: &str) -> Option<(usize, &str)> {
    // The path of a file may contain any character.
    if url.starts_with("sqlite:") {
        return None;
    }
    let start = url.find("//")? + 2;
    let rest = url.get(start..)?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    // A password that is not percent-encoded may contain any of these, so it ends at the last `@`.
    let end = rest.rfind('@').map_or(end, |at| end.max(at + 1));
    Some((start, rest.get(..end)?))
}

/// The range of the user's password, with the colon before it.
fn password(url: &str) -> Option<(usize, usize)> {
    let (start, authority) = authority(url)?;
    let at = authority.rfind('@')?;
    let colon = authority.get(..at)?.find(':')?;
    Some((start + colon, start + at))
}

/// The user, if the URL names one, and the password.
pub(super) fn login(url: &str) -> Option<(Option<String>, String)> {
    let parameter = |name| BackendUrl::parse(url).ok()?.text(name).ok()?;
    let (before, after) = match password(url) {
        Some((start, end)) => (url.get(..start)?, Some(percent_decoded(url.get(start + 1..end)?)?)),
        None => (url, None),
    };
    let user = after.as_ref().and_then(|_| percent_decoded(before.rsplit_once('/')?.1));
    let user = user.or_else(|| parameter("user")).filter(|user| !user.is_empty());
    Some((user, parameter("password").or(after)?))
}

fn is_secret(parameter: &str) -> bool {
    let name = parameter.split('=').next().unwrap_or_default();
    name.to_ascii_lowercase().contains("pass")
}

pub(super) fn has_password(url: &str) -> bool {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    password(url).is_some() || query.split('&').any(is_secret)
}

/// The URL without its password, for messages and for the environment of a command.
pub(crate) fn without_password(url: &str) -> String {
    let mut url = url.to_owned();
    if let Some((start, end)) = password(&url) {
        url.replace_range(start..end, "");
    }
    let Some((base, query)) = url.split_once('?') else { return url };
    let rest: Vec<&str> = query.split('&').filter(|parameter| !is_secret(parameter)).collect();
    if rest.is_empty() { base.to_owned() } else { format!("{base}?{}", rest.join("&")) }
}

/// The URL without the user and the password before the host.
pub(super) fn without_login(url: &str) -> String {
    let mut url = url.to_owned();
    let login =
        authority(&url).and_then(|(start, text)| Some((start, start + text.rfind('@')? + 1)));
    if let Some((start, end)) = login {
        url.replace_range(start..end, "");
    }
    url
}

pub(super) fn has_parameter(url: &str, name: &str) -> bool {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    query.split('&').any(|parameter| parameter.split('=').next() == Some(name))
}

/// The URL with this parameter, which replaces one of the same name.
pub(super) fn with_parameter(url: &str, name: &str, value: &str) -> String {
    let added = format!("{name}={}", encoded(value));
    let Some((base, query)) = url.split_once('?') else { return format!("{url}?{added}") };
    let named =
        |parameter: &&str| parameter.split('=').next() != Some(name) && !parameter.is_empty();
    let kept: Vec<&str> = query.split('&').filter(named).chain([added.as_str()]).collect();
    format!("{base}?{}", kept.join("&"))
}

/// The same URL, with an absolute path if it names a file: a command that this program starts may be in another folder.
pub(super) fn with_absolute_path(url: &str) -> String {
    let relative = url.strip_prefix("sqlite:").filter(|rest| !rest.starts_with(['/', ':', '?']));
    let (Some(relative), Ok(here)) = (relative, std::env::current_dir()) else {
        return url.to_owned();
    };
    match here.to_str() {
        Some(here) if !relative.is_empty() => format!("sqlite://{}/{relative}", encoded(here)),
        _ => url.to_owned(),
    }
}

/// Percent-encodes a path or a value.
pub(super) fn encoded(path: &str) -> String {
    use std::fmt::Write as _;

    let mut encoded = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
            encoded.push(byte.into());
        } else {
            // Writing to a `String` never fails.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_replaces_one_of_the_same_name() {
        for (url, expected) in [
            ("redis://host", "redis://host?note=a%26b%20%3D"),
            ("redis://host?", "redis://host?note=a%26b%20%3D"),
            ("sqlite:a?note=x&notes=y", "sqlite:a?notes=y&note=a%26b%20%3D"),
        ] {
            assert_eq!(with_parameter(url, "note", "a&b ="), expected);
        }
    }

    #[test]
    fn a_file_is_the_same_in_every_folder() {
        let here = encoded(std::env::current_dir().unwrap().to_str().unwrap());
        assert_eq!(
            with_absolute_path("sqlite:a%20b?note=x"),
            format!("sqlite://{here}/a%20b?note=x")
        );
        for url in ["sqlite:///a/b.db", "sqlite:/a", "sqlite:", "sqlite::memory:", "redis://a", ""]
        {
            assert_eq!(with_absolute_path(url), url);
        }
    }

    #[test]
    fn a_login_is_found_wherever_a_url_has_it() {
        for (url, user, expected) in [
            ("redis://:hunter2@host", None, Some("hunter2")),
            ("etcd://me%40x:hunter%2F2@a,b/p", Some("me@x"), Some("hunter/2")),
            ("postgres://me:@h/d?password=hunter2", Some("me"), Some("hunter2")),
            ("postgres:///d?host=/run&user=me&password=hunter2", Some("me"), Some("hunter2")),
            ("postgres://me@h/d", None, None),
            ("redis://host", None, None),
        ] {
            let expected = expected.map(|password| (user.map(str::to_owned), password.to_owned()));
            assert_eq!(login(url), expected, "{url}");
        }
    }

    #[test]
    fn passwords_are_left_out() {
        for (url, shown) in [
            ("redis://host:6379/1", "redis://host:6379/1"),
            ("redis://:hunter2@host", "redis://@host"),
            ("redis://me:hunter2@host/0?a=1", "redis://me@host/0?a=1"),
            ("postgres://me:hunter2/3?#@host/db", "postgres://me@host/db"),
            (
                "postgres://me@host/db?password=hunter2&sslmode=require",
                "postgres://me@host/db?sslmode=require",
            ),
            ("redis-sentinel://h?sentinelPassword=hunter2", "redis-sentinel://h"),
            ("sqlite:///var/lib/a:b@c.db", "sqlite:///var/lib/a:b@c.db"),
            ("sqlite:locks.db", "sqlite:locks.db"),
        ] {
            assert_eq!(without_password(url), shown);
            assert_eq!(has_password(url), url.contains("hunter2"), "{url}");
        }
    }
}
