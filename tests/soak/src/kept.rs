//! The newest part of a history, to examine violations.

use std::collections::{HashSet, VecDeque};
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use syncguard_history::{Entry, History, Line};

/// The size of one file.
const FILE: usize = 8 << 20;
/// The number of kept files.
const FILES: usize = 12;

/// Writes lines into files of a folder, and deletes the oldest files.
pub(crate) struct Kept {
    folder: PathBuf,
    files: VecDeque<PathBuf>,
    newest: BufWriter<File>,
    written: usize,
    number: u64,
}

impl Kept {
    pub(crate) fn new(folder: &Path) -> Result<Self> {
        let first = folder.join(name(0));
        let newest = create(&first)?;
        let (folder, files) = (folder.to_owned(), VecDeque::from([first]));
        Ok(Self { folder, files, newest, written: 0, number: 0 })
    }

    /// Makes all lines readable for others.
    pub(crate) fn flush(&mut self) -> Result<()> {
        Ok(self.newest.flush()?)
    }

    /// Writes a line and its end.
    pub(crate) fn keep(&mut self, line: &str) -> Result<()> {
        if self.written >= FILE {
            self.number += 1;
            let next = self.folder.join(name(self.number));
            self.newest.flush()?;
            self.newest = create(&next)?;
            self.written = 0;
            self.files.push_back(next);
            if self.files.len() > FILES
                && let Some(oldest) = self.files.pop_front()
            {
                fs::remove_file(oldest)?;
            }
        }
        self.newest.write_all(line.as_bytes())?;
        self.written += line.len();
        Ok(())
    }
}

fn name(number: u64) -> String {
    format!("history-{number:06}.jsonl")
}

fn create(path: &Path) -> Result<BufWriter<File>> {
    Ok(BufWriter::new(
        File::create(path).with_context(|| format!("cannot write {}", path.display()))?,
    ))
}

/// The kept lines of a folder, from the first call whose answer can be among them.
pub(crate) fn history(folder: &Path) -> Result<History> {
    let mut files = Vec::new();
    for file in fs::read_dir(folder)? {
        let path = file?.path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            files.push(path);
        }
    }
    files.sort();
    let (mut lines, mut called) = (Vec::new(), HashSet::new());
    for file in files {
        let text = fs::read_to_string(&file)?;
        // The end of the newest line may not be written yet.
        for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            let line: Line = serde_json::from_str(line)?;
            let is_known = match &line.entry {
                Entry::Called { number, .. } => called.insert((line.process.clone(), *number)),
                Entry::Answered { number, .. } => called.remove(&(line.process.clone(), *number)),
                _ => true,
            };
            lines.extend(is_known.then_some(line));
        }
    }
    History::new(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_the_newest_and_no_more_than_it_may() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let mut kept = Kept::new(folder.path())?;
        let line = "x".repeat(FILE / 4) + "\n";
        for number in 0..FILES * 4 * 3 {
            kept.keep(&format!("{number}{line}"))?;
        }
        let mut sizes = Vec::new();
        for file in fs::read_dir(folder.path())? {
            sizes.push(file?.metadata()?.len());
        }
        assert_eq!(sizes.len(), FILES);
        assert!(sizes.iter().sum::<u64>() < (FILE * (FILES + 2)) as u64);
        let newest = kept.files.back().context("a file")?;
        kept.newest.flush()?;
        assert!(fs::read_to_string(newest)?.contains(&format!("{}x", FILES * 4 * 3 - 1)));
        Ok(())
    }
}
