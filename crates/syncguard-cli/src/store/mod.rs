//! The choice of the store, and the parts of its URL that may be shown.

mod default;
mod place;
mod url;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use syncguard::DynBackend;
#[cfg(feature = "sqlite")]
use syncguard::authoring::backend_url::BackendUrl;

pub(crate) use self::url::without_password;
use crate::exit::Failure;
use crate::global_options::GlobalOptions;
use crate::lock_options::GivenHolder;
use crate::output::Output;

/// The URL of a store. It may contain a password, so it has no `Debug`.
pub(crate) struct Store {
    url: String,
    /// Parameters for this program alone: commands that it starts do not see them.
    parameters: Vec<(&'static str, String)>,
}

impl Store {
    /// The store that the options name, or else the environment, or else the default store.
    pub(crate) fn find(options: &GlobalOptions, output: Output) -> Result<Self, Failure> {
        if let Some(url) = &options.store {
            return Self::from_argument(url, "--store", output);
        }
        if let Some(path) = &options.store_file {
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

    /// The store of a URL from the command line. `place` names the option or argument.
    pub(crate) fn from_argument(url: &str, place: &str, output: Output) -> Result<Self, Failure> {
        warn_of_password(url, place, "SYNCGUARD_STORE or --store-file", output);
        Self::new(url)
    }

    /// The store with this URL.
    pub(crate) fn new(url: &str) -> Result<Self, Failure> {
        let url = url.trim();
        if url.starts_with("memory:") {
            return Err(Failure::usage(
                "memory: is a store inside of one process, which no other process sees; use sqlite:///path for the \
                 processes of one machine",
            ));
        }
        Ok(Self { url: url.to_owned(), parameters: Vec::new() })
    }

    fn from_file(path: &Path) -> Result<Self, Failure> {
        let text = fs::read_to_string(path).map_err(|error| {
            Failure::usage(format!("the store file {} cannot be read: {error}", path.display()))
        })?;
        Self::new(&text)
    }

    /// The URL as given, with its password.
    pub(crate) fn expose(&self) -> &str {
        &self.url
    }

    /// Where the locks are: the URL without its login and the options that do not matter for that.
    pub(crate) fn place(&self) -> String {
        place::of(&self.url, self.file().as_deref())
    }

    /// The file that holds the locks, if the store is a file.
    #[cfg(feature = "sqlite")]
    pub(crate) fn file(&self) -> Option<PathBuf> {
        let url = BackendUrl::parse(&self.url).ok().filter(|url| url.scheme() == "sqlite")?;
        let path = url.after_scheme().ok()?;
        Some(PathBuf::from(path.strip_prefix("//").unwrap_or(&path)))
    }

    #[cfg(not(feature = "sqlite"))]
    #[expect(clippy::unused_self, reason = "with the feature the store may be a file")]
    pub(crate) fn file(&self) -> Option<PathBuf> {
        None
    }

    /// The same store, and all locks have this label unless the URL has one. [`with_holder`](Self::with_holder) comes
    /// after this, and decides.
    pub(crate) fn with_default_label(mut self, label: String) -> Self {
        if !url::has_parameter(&self.url, "holder") {
            self.parameters.push(("holder", label));
        }
        self
    }

    /// The same store, and all locks have this holder unless nothing was given.
    pub(crate) fn with_holder(mut self, holder: GivenHolder) -> Self {
        self.parameters.extend(holder.label.map(|label| ("holder", label)));
        self.parameters.extend(holder.note.map(|note| ("note", note)));
        self
    }

    /// The same store, whose tables are created. `None` if it has none to create.
    pub(crate) fn with_schema_setup(mut self) -> Option<Self> {
        let is_postgres =
            ["postgres:", "postgresql:"].iter().any(|scheme| self.url.starts_with(scheme));
        self.parameters.push(("setup_schema", "true".to_owned()));
        is_postgres.then_some(self)
    }

    pub(crate) async fn connect(&self) -> Result<DynBackend, Failure> {
        let url = self
            .parameters
            .iter()
            .fold(self.url.clone(), |url, (name, value)| url::with_parameter(&url, name, value));
        Ok(syncguard::connect(&url).await?)
    }
}

/// Warns if a URL from the command line contains a password.
pub(crate) fn warn_of_password(url: &str, place: &str, instead: &str, output: Output) {
    if url::has_password(url) {
        output.note(format_args!(
            "a password in {place} is visible to every user of this machine; use {instead}"
        ));
    }
}
