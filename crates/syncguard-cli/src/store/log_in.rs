//! The log-in to the store, whose password in the store file may change while this program runs.

use std::convert::Infallible;
use std::fs;
use std::path::{Path, PathBuf};

use syncguard::{Credentials, CredentialsProvider};

use super::url::login;

/// Reads the store file again for each log-in. `None` if the URL is not from a file, or has no password.
///
/// Only a regular file is read again: a pipe, as of `--store-file <(secret)`, is empty by then. While the file is missing
/// or has no password, as in the midst of a change, the password from the start stands.
pub(super) fn provider(url: &str, file: Option<&Path>) -> Option<CredentialsProvider> {
    let first = login(url)?;
    let path = file?.to_owned();
    Some(CredentialsProvider::new(move || {
        let (user, password) = read(&path).unwrap_or_else(|| first.clone());
        let credentials = Credentials::password(password);
        let credentials = user.into_iter().fold(credentials, Credentials::with_user);
        async { Ok::<_, Infallible>(credentials) }
    }))
}

fn read(path: &PathBuf) -> Option<(Option<String>, String)> {
    let is_file = fs::metadata(path).is_ok_and(|found| found.is_file());
    let text = if is_file { fs::read_to_string(path).ok()? } else { return None };
    login(text.trim_matches(super::is_around_text))
}
