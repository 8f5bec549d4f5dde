//! Reading a history while it is written.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::event::Line;

/// Follows the files `*.jsonl` of a folder, also files that are created later.
#[derive(Debug)]
pub struct Follow {
    folder: PathBuf,
    /// The position in each file.
    read: HashMap<OsString, u64>,
}

impl Follow {
    /// Starts at the beginning of the files.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), read: HashMap::new() }
    }

    /// Passes on the lines since the last call, and returns their number. A line without an end waits for its end: a
    /// SIGKILL may have torn it, or its writer is in the middle of it.
    ///
    /// # Errors
    ///
    /// For a folder or a line that cannot be read.
    pub fn read(&mut self, mut take: impl FnMut(Line)) -> Result<u64> {
        let mut count = 0;
        for file in fs::read_dir(&self.folder)? {
            let file = file?;
            let path = file.path();
            if path.extension().is_none_or(|extension| extension != "jsonl") {
                continue;
            }
            let read = self.read.entry(file.file_name()).or_default();
            let mut file = File::open(&path)?;
            if file.metadata()?.len() == *read {
                continue;
            }
            file.seek(SeekFrom::Start(*read))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            for line in bytes[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
            {
                let line = serde_json::from_slice(line);
                take(line.with_context(|| format!("a line of {}", path.display()))?);
                count += 1;
            }
            *read += whole as u64;
        }
        Ok(count)
    }
}
