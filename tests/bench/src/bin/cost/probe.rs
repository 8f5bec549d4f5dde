//! The process whose work is measured.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

/// The program.
pub(crate) struct Probe(pub(crate) PathBuf);

#[derive(Clone, Copy)]
pub(crate) struct Job {
    pub(crate) work: &'static str,
    pub(crate) count: usize,
    pub(crate) callers: usize,
    pub(crate) keys: usize,
    pub(crate) seconds: f64,
}

/// The process's cost of the work.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Cost {
    pub(crate) seconds: f64,
    pub(crate) processor: f64,
    pub(crate) allocations: f64,
    pub(crate) bytes: f64,
    pub(crate) switches: f64,
    /// Locks that were lost.
    pub(crate) lost: f64,
}

impl Job {
    pub(crate) fn new(work: &'static str, count: usize) -> Self {
        Self { work, count, callers: 1, keys: 1, seconds: 0.0 }
    }
}

impl Probe {
    /// The one of this tree, which is built with this program.
    pub(crate) fn here() -> Result<Self> {
        let path = std::env::current_exe()?.with_file_name("probe");
        ensure!(path.is_file(), "{} is not built", path.display());
        Ok(Self(path))
    }

    pub(crate) async fn run(&self, url: &str, job: Job) -> Result<Cost> {
        Ok(self.run_and_look(url, job, async || Ok(())).await?.0)
    }

    /// Looks at the server as well, before and after the work.
    pub(crate) async fn run_and_look<T>(
        &self,
        url: &str,
        job: Job,
        mut look: impl AsyncFnMut() -> Result<T>,
    ) -> Result<(Cost, [T; 2])> {
        let Job { work, count, callers, keys, seconds } = job;
        let mut child = Command::new(&self.0)
            .args([url, work])
            .args([count, callers, keys].map(|number| number.to_string()))
            .arg(seconds.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut input = child.stdin.take().context("a pipe")?;
        let mut lines = BufReader::new(child.stdout.take().context("a pipe")?).lines();
        let mut next = || {
            tokio::task::block_in_place(|| {
                lines.next().context("a probe failed")?.map_err(anyhow::Error::from)
            })
        };
        ensure!(next()? == "ready");
        let before = look().await?;
        writeln!(input)?;
        let cost = serde_json::from_str(&next()?)?;
        let after = look().await?;
        drop(input);
        ensure!(child.wait()?.success(), "a probe failed");
        Ok((cost, [before, after]))
    }
}
