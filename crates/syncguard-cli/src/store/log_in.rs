//! The log-in to the store, whose password in the store file may change while this program runs.

use std::convert::Infallible;
use std::fs;
use std::path::Path;

use syncguard::{Credentials, CredentialsProvider};

use super::url::{login, without_login, without_password};

/// Reads the store file again for each log-in. `None` if the URL is not from a file, or has no password.
///
/// Only a regular file is read again: a pipe, as of `--store-file <(secret)`, is empty by then. While the file is missing
/// or has no password, as in the midst of a change, the password from the start stands. A file that names another store
/// has a password that is not for this one.
pub(super) fn provider(url: &str, file: Option<&Path>) -> Option<CredentialsProvider> {
    let first = login(url)?;
    let (path, store) = (file?.to_owned(), store_of(url));
    Some(CredentialsProvider::new(move || {
        let (user, password) = read(&path, &store).unwrap_or_else(|| first.clone());
        let credentials = Credentials::password(password);
        let credentials = user.into_iter().fold(credentials, Credentials::with_user);
        async { Ok::<_, Infallible>(credentials) }
    }))
}

fn read(path: &Path, store: &str) -> Option<(Option<String>, String)> {
    let is_file = fs::metadata(path).is_ok_and(|found| found.is_file());
    let text = if is_file { fs::read_to_string(path).ok()? } else { return None };
    let url = text.trim_matches(super::is_around_text);
    login(url).filter(|_| store_of(url) == store)
}

/// The URL without what may change: the user and the password, before the host or as parameters.
fn store_of(url: &str) -> String {
    let url = without_login(&without_password(url));
    let Some((base, query)) = url.split_once('?') else { return url };
    let rest: Vec<&str> = query.split('&').filter(|part| !part.starts_with("user=")).collect();
    format!("{base}?{}", rest.join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_for_another_store_is_not_taken() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let store = store_of("redis://app:one@h:1/0?key_prefix=p");
        for (text, password) in [
            ("redis://app:two@h:1/0?key_prefix=p\n", Some("two")),
            ("redis://other:two@h:1/0?key_prefix=p", Some("two")),
            ("redis://app:two@elsewhere:1/0?key_prefix=p", None),
            ("redis://app:two@h:2/0?key_prefix=p", None),
            ("rediss://app:two@h:1/0?key_prefix=p", None),
            ("redis://h:1/0?key_prefix=p", None),
        ] {
            fs::write(file.path(), text).unwrap();
            let read = read(file.path(), &store).map(|(_, password)| password);
            assert_eq!(read.as_deref(), password, "{text}");
        }
        let [one, other] =
            ["postgres://h/d?user=a&password=x&x=1", "postgres://h/d?user=b&password=y&x=1"];
        assert_eq!(store_of(one), store_of(other));
    }
}
