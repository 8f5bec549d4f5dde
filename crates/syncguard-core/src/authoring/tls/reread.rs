//! Files that are read again whenever a connection is opened, because somebody may have replaced them.

use std::fmt;
use std::fs::{File, Metadata};
use std::io::Read as _;
use std::path::PathBuf;

use crate::authoring::backend_url::KEY;
use crate::client::outage_log::OutageLog;
use crate::rt::Mutex;
use crate::value::LockError;

/// The name of a file's parameter, and its path.
pub(super) type Source = (&'static str, PathBuf);

/// What the files hold. Nothing is told of their contents: a path may lead to any file.
pub(super) struct Reread<T> {
    sources: Vec<Source>,
    make: fn(&[Vec<u8>]) -> Result<T, LockError>,
    /// The contents that could be used last, and what was made of them.
    last: Mutex<(Vec<Vec<u8>>, T)>,
    broken: OutageLog,
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
        Ok(Self { sources, make, last: Mutex::new((contents, made)), broken: OutageLog::default() })
    }

    /// What the files held when they were read last.
    pub(super) fn last(&self) -> T {
        self.last.lock().1.clone()
    }

    /// What the files hold now, or what they held when they could be used last. Contents are compared, since a time of
    /// change is too coarse. Small files cost some 20 µs.
    pub(super) fn current(&self) -> T {
        let mut last = self.last.lock();
        match self.anew(&last.0) {
            Ok(anew) => {
                if self.broken.ends() {
                    tracing::info!("the files of TLS can be used again");
                }
                if let Some(anew) = anew {
                    *last = anew;
                }
            }
            Err(error) if self.broken.begins() => {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                tracing::warn!(
                    %error,
                    cause,
                    "a file of TLS was replaced and cannot be used; its last good contents stay in use"
                );
            }
            Err(_) => {}
        }
        last.1.clone()
    }

    /// `None` if nothing has changed.
    fn anew(&self, last: &[Vec<u8>]) -> Result<Option<(Vec<Vec<u8>>, T)>, LockError> {
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
        Ok(Some((contents, made)))
    }
}

fn read((name, path): &Source) -> Result<Vec<u8>, LockError> {
    let failed = |error: std::io::Error| {
        LockError::invalid_argument(format!("the file of {name} cannot be read")).with_source(&error)
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
