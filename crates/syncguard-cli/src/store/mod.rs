//! The choice of the store, and the parts of its URL that may be shown.

mod access;
mod default;
mod log_in;
mod place;
mod url;

use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf, absolute};

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
    /// The file that the URL was read from.
    source: Option<PathBuf>,
    /// The folder of the default store, if no store was named.
    default: Option<PathBuf>,
    /// True if the URL names a file without its folder.
    is_relative: bool,
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
            Self::from_file(path, "--store-file", output)?
        } else if let Some(path) = env::var_os("SYNCGUARD_STORE_FILE") {
            Self::from_file(Path::new(&path), "SYNCGUARD_STORE_FILE", output)?
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
        let store = store.for_access(access);
        store.tell_new_file(output);
        Ok(store)
    }

    /// Says that a command in another folder would use another file, if this one is made because its URL names no folder.
    /// Told even to those who want errors only, such as cron, as for the default store.
    pub(crate) fn tell_new_file(&self, output: Output) {
        let path = self.missing_file().filter(|_| self.is_relative && self.access != Access::Look);
        if let Some(path) = path {
            let (path, place) = (path.display(), self.place());
            output.error(format!(
                "the store is a new file, {path}: its URL names no folder, so a command in another folder uses another \
                 file with locks of its own. {place} is the same file everywhere"
            ));
        }
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
        let (given, url) = (url, url::with_absolute_path(url));
        let is_relative = url != given;
        Ok(Self {
            url,
            access: Access::Lock,
            source: None,
            default: None,
            is_relative,
            parameters: Vec::new(),
        })
    }

    fn from_file(path: &Path, place: &str, output: Output) -> Result<Self, Failure> {
        if path.as_os_str().is_empty() {
            return Err(Failure::usage(format!("{place} is empty: {NO_STORE}")));
        }
        let shown = format!("the store file {}", path.display());
        let text = fs::read_to_string(path)
            .map_err(|error| Failure::usage(format!("{shown} cannot be read: {error}")))?;
        if url::has_password(&text) && can_all_read(path) {
            output.note(format_args!(
                "the password in {shown} is visible to every user of this machine; `chmod 600` on the file mends that"
            ));
        }
        Ok(Self { source: absolute(path).ok(), ..Self::named(&text, &shown)? })
    }

    /// The same store, for a command that does this with it.
    pub(crate) fn for_access(self, access: Access) -> Self {
        Self { access, ..self }
    }

    /// The whole path of the file that the URL was read from.
    pub(crate) fn source(&self) -> Option<&Path> {
        self.source.as_deref()
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

    /// The same store, whose tables are created, or also get columns that they lack. `None` if it has no tables.
    pub(crate) fn with_schema_setup(mut self, upgrade: bool) -> Option<Self> {
        let is_postgres =
            ["postgres:", "postgresql:"].iter().any(|scheme| self.url.starts_with(scheme));
        let name = if upgrade { "upgrade_schema" } else { "setup_schema" };
        self.parameters.push((name, "true".to_owned()));
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
        let by_time_told = ["az:", "etcd:", "etcds:", "firestore:", "gs:", "s3:"];
        if by_time_told.iter().any(|scheme| url.starts_with(scheme))
            && !url::has_parameter(&url, "strict_clock")
        {
            url = url::with_parameter(&url, "strict_clock", "true");
        }
        Ok(match log_in::provider(&self.url, self.source.as_deref()) {
            Some(provider) => syncguard::connect_with_credentials(&url, provider).await?,
            None => syncguard::connect(&url).await?,
        })
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

/// Returns whether every user of this machine can read the file: a folder above it may keep them out.
fn can_all_read(path: &Path) -> bool {
    let gives = |path: &Path, right| {
        fs::metadata(path).is_ok_and(|found| found.permissions().mode() & right != 0)
    };
    let whole = fs::canonicalize(path);
    gives(path, 0o004)
        && whole.is_ok_and(|path| path.ancestors().skip(1).all(|folder| gives(folder, 0o001)))
}

/// Warns if a URL from the command line contains a password.
pub(crate) fn warn_of_password(url: &str, place: &str, instead: &str, output: Output) {
    if url::has_password(url) {
        output.note(format_args!(
            "a password in {place} is visible to every user of this machine; use {instead}"
        ));
    }
}
