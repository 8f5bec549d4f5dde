//! The part of a failed call that may be shown.

use std::error::Error;
use std::fmt;
use std::io;

/// For authors of backends: the source of an error of a call. It has the backend's own words for the call, and the kind of
/// an I/O error below it. A text of a driver or a server is left out, because it may contain anything.
#[derive(Debug)]
pub struct CallSource {
    words: String,
    io: Option<io::ErrorKind>,
}

impl CallSource {
    /// The source for this error of a driver.
    #[must_use]
    pub fn new(words: String, error: &(dyn Error + 'static)) -> Self {
        let errors = sources(error).filter_map(|source| source.downcast_ref::<io::Error>());
        Self { words, io: errors.last().map(io::Error::kind) }
    }
}

impl fmt::Display for CallSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.io {
            Some(kind) => write!(f, "{}: {kind}", self.words),
            None => f.write_str(&self.words),
        }
    }
}

impl Error for CallSource {}

/// The sources of an error, the nearest one first.
pub fn sources<'e>(
    error: &'e (dyn Error + 'static),
) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(error.source(), |&source| source.source())
}

/// Returns whether the system could not look a host name up. The standard library has no kind for this, only these words.
#[must_use]
pub fn is_unknown_name(error: &io::Error) -> bool {
    error.raw_os_error().is_none()
        && error.to_string().starts_with("failed to lookup address information")
}
