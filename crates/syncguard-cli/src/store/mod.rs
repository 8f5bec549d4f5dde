//! The choice of the store, and the parts of its URL that may be shown.

mod access;
mod default;
mod place;
mod url;

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use syncguard::DynBackend;
use syncguard::authoring::backend_url::BackendUrl;

pub(crate) use self::access::Access;
pub(crate) use self::url::without_password;
use crate::exit::Failure;
use crate::global_options::GlobalOptions;
use crate::output::Output;

/// The URL of a store. It may contain a password, so it has no `Debug`.
pub(crate) struct Store {
    url: String,
    access: Access,
    /// The folder of the default store, if no store was named.
    default: Option<PathBuf>,
    /// Parameters for this program alone: commands that it starts do not see them.
    parameters: Vec<(&'static str, String)>,
}

impl Store {
    /// The store that the options name, or else the environment, or else the default store.
    ///
    /// # Errors
    ///
    /// Fails if an option or a variable is empty: the secret that it should have is missing, and the default store would
    /// let in a holder on each machine.
    pub(crate) fn find(
        options: &GlobalOptions,
        access: Access,
        output: Output,
    ) -> Result<Self, Failure> {
        let store = if let Some(url) = &options.store {
            Self::from_argument(url, "--store", output)?
        } else if let Some(path) = &options.store_file {
            Self::from_file(path, "--store-file")?
        } else if let Some(path) = env::var_os("SYNCGUARD_STORE_FILE") {
            Self::from_file(Path::new(&path), "SYNCGUARD_STORE_FILE")?
        } else {
            match env::var("SYNCGUARD_STORE") {
                Ok(url) => Self::named(&url, "SYNCGUARD_STORE")?,
                Err(env::VarError::NotUnicode(_)) => {
                    return Err(Failure::usage("SYNCGUARD_STORE is not UTF-8"));
                }
                Err(env::VarError::NotPresent) => {
                    let folder = default::folder()?;
                    default::tell(&folder, access, output);
                    Self { default: Some(folder.clone()), ..Self::new(&default::url(&folder)?)? }
                }
            }
        };
        Ok(store.for_access(access))
    }

    /// The store of a URL from the command line. `place` names the option or argument.
    pub(crate) fn from_argument(url: &str, place: &str, output: Output) -> Result<Self, Failure> {
        warn_of_password(url, place, "SYNCGUARD_STORE or --store-file", output);
        Self::named(url, place)
    }

    /// The store with this URL, which may not be empty.
    fn named(url: &str, place: &str) -> Result<Self, Failure> {
        if is_blank(url) {
            return Err(Failure::usage(format!("{place} is empty: {NO_STORE}")));
        }
        Self::new(url)
    }

    /// The store with this URL, for locks.
    pub(crate) fn new(url: &str) -> Result<Self, Failure> {
        // An editor may have put a byte order mark before the text of a file.
        let url = url.trim_matches(is_around_text);
        if url.starts_with("memory:") {
            return Err(Failure::usage(
                "memory: is a store inside of one process, which no other process sees; use sqlite:///path for the \
                 processes of one machine",
            ));
        }
        let url = url::with_absolute_path(url);
        Ok(Self { url, access: Access::Lock, default: None, parameters: Vec::new() })
    }

    fn from_file(path: &Path, place: &str) -> Result<Self, Failure> {
        if path.as_os_str().is_empty() {
            return Err(Failure::usage(format!("{place} is empty: {NO_STORE}")));
        }
        let shown = format!("the store file {}", path.display());
        let text = fs::read_to_string(path)
            .map_err(|error| Failure::usage(format!("{shown} cannot be read: {error}")))?;
        Self::named(&text, &shown)
    }

    /// The same store, for a command that does this with it.
    pub(crate) fn for_access(self, access: Access) -> Self {
        Self { access, ..self }
    }

    /// True if the user has named this store.
    pub(crate) fn is_named(&self) -> bool {
        self.default.is_none()
    }

    /// The path of the file that holds the locks, if it does not exist yet.
    pub(crate) fn missing_file(&self) -> Option<PathBuf> {
        let path = self.file()?;
        let is_missing = |path: &Path| {
            fs::metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        };
        // A folder that does not exist is a mistake, unless it is ours.
        let has_folder = path.parent().is_some_and(|folder| !is_missing(folder));
        (is_missing(&path) && (has_folder || !self.is_named())).then_some(path)
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
    pub(crate) fn file(&self) -> Option<PathBuf> {
        let is_file = |url: &BackendUrl<'_>| cfg!(feature = "sqlite") && url.scheme() == "sqlite";
        let url = BackendUrl::parse(&self.url).ok().filter(is_file)?;
        let path = url.after_scheme().ok()?;
        Some(PathBuf::from(path.strip_prefix("//").unwrap_or(&path)))
    }

    /// The same store, and all locks have this label unless the URL has one.
    /// [`with_parameters`](Self::with_parameters) comes after this, and decides.
    pub(crate) fn with_default_label(mut self, label: String) -> Self {
        if !url::has_parameter(&self.url, "holder") {
            self.parameters.push(("holder", label));
        }
        self
    }

    /// The same store, for which these parameters replace those of its URL.
    pub(crate) fn with_parameters(mut self, parameters: Vec<(&'static str, String)>) -> Self {
        self.parameters.extend(parameters);
        self
    }

    /// The same store, whose tables are created. `None` if it has none to create.
    pub(crate) fn with_schema_setup(mut self) -> Option<Self> {
        let is_postgres =
            ["postgres:", "postgresql:"].iter().any(|scheme| self.url.starts_with(scheme));
        self.parameters.push(("setup_schema", "true".to_owned()));
        is_postgres.then_some(self)
    }

    /// Connects to the store. A command that only looks makes no file: an empty store stands for a missing one.
    pub(crate) async fn connect(&self) -> Result<DynBackend, Failure> {
        if self.access == Access::Look && self.missing_file().is_some() {
            return Ok(syncguard::connect("memory:").await?);
        }
        if let Some(folder) = &self.default {
            default::make(folder)?;
        }
        let mut url = self
            .parameters
            .iter()
            .fold(self.url.clone(), |url, (name, value)| url::with_parameter(&url, name, value));
        // A command is better late than beside another one.
        let by_time_told = ["etcd:", "etcds:", "firestore:"];
        if by_time_told.iter().any(|scheme| url.starts_with(scheme))
            && !url::has_parameter(&url, "strict_clock")
        {
            url = url::with_parameter(&url, "strict_clock", "true");
        }
        Ok(syncguard::connect(&url).await?)
    }
}

const NO_STORE: &str = "the secret or the variable behind it may be missing. Nothing was done. The store is a file of \
                        this user only where no store is given at all";

fn is_blank(text: &str) -> bool {
    text.chars().all(is_around_text)
}

fn is_around_text(char: char) -> bool {
    char.is_whitespace() || char == '\u{feff}'
}

/// Warns if a URL from the command line contains a password.
pub(crate) fn warn_of_password(url: &str, place: &str, instead: &str, output: Output) {
    if url::has_password(url) {
        output.note(format_args!(
            "a password in {place} is visible to every user of this machine; use {instead}"
        ));
    }
}
