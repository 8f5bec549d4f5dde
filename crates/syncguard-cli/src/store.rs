//! Which store, and what may be shown of it.

mod default;
mod url;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use syncguard::DynBackend;
#[cfg(feature = "sqlite")]
use syncguard::authoring::backend_url::BackendUrl;

pub(crate) use self::url::without_password;
use crate::args::Common;
use crate::exit::Failure;
use crate::output::Output;

/// The URL of a store. It has no `Debug`, since it may hold a password.
pub(crate) struct Store {
    url: String,
}

impl Store {
    /// The store that the options, the environment or else the default name.
    pub(crate) fn find(common: &Common, output: Output) -> Result<Self, Failure> {
        if let Some(url) = &common.store {
            return Self::given(url, "--store", output);
        }
        if let Some(path) = &common.store_file {
            return Self::from_file(path);
        }
        if let Some(path) = env::var_os("SYNCGUARD_STORE_FILE").filter(|path| !path.is_empty()) {
            return Self::from_file(Path::new(&path));
        }
        match env::var("SYNCGUARD_STORE") {
            Ok(url) if !url.is_empty() => Self::new(&url),
            Err(env::VarError::NotUnicode(_)) => {
                Err(Failure::usage("SYNCGUARD_STORE is not UTF-8"))
            }
            _ => default::url(output).and_then(|url| Self::new(&url)),
        }
    }

    /// The store of a URL from the command line.
    pub(crate) fn given(url: &str, place: &str, output: Output) -> Result<Self, Failure> {
        warn_of_password(url, place, "SYNCGUARD_STORE or --store-file", output);
        Self::new(url)
    }

    /// The store of this URL.
    pub(crate) fn new(url: &str) -> Result<Self, Failure> {
        let url = url.trim();
        if url.starts_with("memory:") {
            return Err(Failure::usage(
                "memory: is a store inside of one process, which nobody else sees; use sqlite:///path for the \
                 processes of one machine",
            ));
        }
        Ok(Self { url: url.to_owned() })
    }

    fn from_file(path: &Path) -> Result<Self, Failure> {
        let text = fs::read_to_string(path).map_err(|error| {
            Failure::usage(format!("the store file {} cannot be read: {error}", path.display()))
        })?;
        Self::new(&text)
    }

    /// The URL as it was given.
    pub(crate) fn expose(&self) -> &str {
        &self.url
    }

    /// The file that the locks are in, if the store is one.
    #[cfg(feature = "sqlite")]
    pub(crate) fn file(&self) -> Option<PathBuf> {
        let url = BackendUrl::parse(&self.url).ok().filter(|url| url.scheme() == "sqlite")?;
        let path = url.after_scheme().ok()?;
        Some(PathBuf::from(path.strip_prefix("//").unwrap_or(&path)))
    }

    #[cfg(not(feature = "sqlite"))]
    #[expect(clippy::unused_self, reason = "with the feature it may be one")]
    pub(crate) fn file(&self) -> Option<PathBuf> {
        None
    }

    pub(crate) async fn connect(&self) -> Result<DynBackend, Failure> {
        Ok(syncguard::connect(&self.url).await?)
    }
}

/// Says that a URL from the command line has a password in it.
pub(crate) fn warn_of_password(url: &str, place: &str, instead: &str, output: Output) {
    if url::has_password(url) {
        output.note(format_args!(
            "a password in {place} is visible to every user of this machine; use {instead}"
        ));
    }
}
