//! What was called and answered in a run, and the rules that must hold whatever went wrong meanwhile.
//!
//! Each process writes its part as it goes, one line of JSON an event, so that a SIGKILL loses
//! nothing but the call that was under way. [`History`] puts the parts together; [`check`] holds them
//! against the ten invariants. A run in which nothing went wrong proves little: [`Floors`] says
//! how much must have happened.

mod check;
mod event;
mod floors;
mod locks;
mod recorder;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

pub use check::{Invariant, Limits, Violation, check};
pub use event::{Answer, Call, Entry, Fault, Line, Moment};
pub use floors::{Counts, Floors};
pub use recorder::{Clock, Pending, Recorder};

/// One operation, as its caller saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Who called.
    pub process: String,
    /// Which of the caller's operations it is.
    pub number: u64,
    /// What was asked.
    pub call: Call,
    /// When it was asked.
    pub called: Moment,
    /// What was answered, and when. `None` if the caller did not live to see it.
    pub answered: Option<(Moment, Answer)>,
}

impl Operation {
    /// The answer, if there is one.
    #[must_use]
    pub fn answer(&self) -> Option<&Answer> {
        self.answered.as_ref().map(|(_, answer)| answer)
    }

    /// Whether nobody knows if it was carried out.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        match self.answer() {
            None | Some(Answer::Dropped) => true,
            // The store is told to undo what was aborted, and nobody waits for that.
            Some(Answer::Failed { unknown, code }) => *unknown || code == "Aborted",
            Some(_) => false,
        }
    }
}

/// All that was recorded of a run.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// In the order of the calls.
    pub operations: Vec<Operation>,
    /// What went wrong on purpose, and what was found in the end.
    pub notes: Vec<(Moment, Entry)>,
}

impl History {
    /// Puts lines together, in the order each process wrote its own.
    ///
    /// # Errors
    ///
    /// For an answer without a call.
    pub fn new(lines: impl IntoIterator<Item = Line>) -> Result<Self> {
        let mut history = Self::default();
        let mut open = std::collections::HashMap::new();
        for Line { at, process, entry } in lines {
            match entry {
                Entry::Called { number, call } => {
                    open.insert((process.clone(), number), history.operations.len());
                    let operation = Operation { process, number, call, called: at, answered: None };
                    history.operations.push(operation);
                }
                Entry::Answered { number, answer } => {
                    let index = open.remove(&(process, number));
                    let index = index.context("an answer without a call")?;
                    history.operations[index].answered = Some((at, answer));
                }
                note => history.notes.push((at, note)),
            }
        }
        history.operations.sort_by_key(|operation| operation.called);
        history.notes.sort_by_key(|(at, _)| *at);
        Ok(history)
    }

    /// Reads all files `*.jsonl` of a folder.
    ///
    /// # Errors
    ///
    /// For a folder or a line that cannot be read; a last line that a SIGKILL has torn is passed over.
    pub fn read(folder: &Path) -> Result<Self> {
        let mut lines = Vec::new();
        for file in fs::read_dir(folder)? {
            let path = file?.path();
            if path.extension().is_none_or(|extension| extension != "jsonl") {
                continue;
            }
            let text = fs::read_to_string(&path)?;
            let whole = text.rfind('\n').map_or("", |end| &text[..end]);
            for line in whole.lines() {
                let line = serde_json::from_str(line);
                lines.push(line.with_context(|| format!("a line of {}", path.display()))?);
            }
        }
        ensure!(!lines.is_empty(), "no history in {}", folder.display());
        Self::new(lines)
    }
}

#[cfg(test)]
mod tests;
