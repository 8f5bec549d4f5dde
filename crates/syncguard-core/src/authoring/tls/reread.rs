//! Files that are read again whenever a connection is opened, because somebody may have replaced them.

use std::fmt;
use std::fs::{File, Metadata};
use std::io::Read as _;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::authoring::backend_url::KEY;
use crate::value::LockError;

/// The name of a file's parameter, and its path.
pub(super) type Source = (&'static str, PathBuf);

/// A value that is made of files. Nobody is told of their contents: a path may lead to any file.
pub(super) struct Reread<T> {
    sources: Vec<Source>,
    make: fn(&[Vec<u8>]) -> Result<T, LockError>,
    last: Mutex<Last<T>>,
}

/// The contents that could be used last, and what was made of them.
struct Last<T> {
    contents: Vec<Vec<u8>>,
    made: T,
    /// True if the files could not be used since.
    is_broken: bool,
}

impl<T> fmt::Debug for Reread<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reread")
    }
}

impl<T: Clone> Reread<T> {
    /// Reads the files for the first time.
    pub(super) fn open(
        sources: &[Source],
        make: fn(&[Vec<u8>]) -> Result<T, LockError>,
    ) -> Result<Self, LockError> {
        // A program may change its folder later.
        let absolute = |(name, path): &Source| {
            (*name, std::path::absolute(path).unwrap_or_else(|_| path.clone()))
        };
        let sources: Vec<_> = sources.iter().map(absolute).collect();
        let contents = sources.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let made = make(&contents)?;
        let last = Last { contents, made, is_broken: false };
        Ok(Self { sources, make, last: Mutex::new(last) })
    }

    /// The value of the last contents that could be used.
    pub(super) fn last(&self) -> T {
        self.locked().made.clone()
    }

    /// The value of the files as they are now, or else of the last contents that could be used. The files' contents are
    /// compared, since a time of change is too coarse.
    pub(super) fn current(&self) -> T {
        let mut last = self.locked();
        let was_broken = std::mem::replace(&mut last.is_broken, false);
        match self.anew(&last.contents) {
            Ok(anew) => {
                if was_broken {
                    tracing::info!("the files of TLS can be used again");
                }
                if let Some(anew) = anew {
                    *last = anew;
                }
            }
            Err(error) => {
                last.is_broken = true;
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                if !was_broken {
                    tracing::warn!(
                        %error,
                        cause,
                        "a file of TLS was replaced and cannot be used; its last good contents stay in use"
                    );
                }
            }
        }
        last.made.clone()
    }

    fn locked(&self) -> MutexGuard<'_, Last<T>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None` if nothing has changed.
    fn anew(&self, last: &[Vec<u8>]) -> Result<Option<Last<T>>, LockError> {
        // A pipe can be read once, and would wait for ever the second time.
        if let Some((name, _)) = self.sources.iter().find(|(_, path)| !path.is_file()) {
            return Err(LockError::invalid_argument(format!(
                "the file of {name} is gone, or is no regular file"
            )));
        }
        let contents = self.sources.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        if contents == last {
            return Ok(None);
        }
        let made = (self.make)(&contents)?;
        Ok(Some(Last { contents, made, is_broken: false }))
    }
}

fn read((name, path): &Source) -> Result<Vec<u8>, LockError> {
    let failed = |error: std::io::Error| {
        LockError::invalid_argument(format!("the file of {name} cannot be read"))
            .with_source(&error)
    };
    let mut file = File::open(path).map_err(failed)?;
    if *name == KEY {
        check_key_file(&file.metadata().map_err(failed)?)?;
    }
    let mut contents = Vec::new();
    file.read_to_end(&mut contents).map_err(failed)?;
    Ok(contents)
}

/// By the rule of libpq.
fn check_key_file(file: &Metadata) -> Result<(), LockError> {
    #[cfg(unix)]
    let is_private = {
        use std::os::unix::fs::MetadataExt as _;
        let others = if file.uid() == 0 { 0o037 } else { 0o077 };
        file.mode() & others == 0
    };
    #[cfg(not(unix))]
    let is_private = true;
    if file.is_file() && is_private {
        return Ok(());
    }
    Err(LockError::invalid_argument(
        "the file of sslkey must be a regular file that others cannot read: mode 0600 or less, or 0640 or less if root owns it",
    ))
}
