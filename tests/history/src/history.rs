//! A whole run.

use std::collections::HashMap;

use anyhow::{Context as _, Result};

use crate::checker::Checker;
use crate::event::{Entry, Line, Moment};
use crate::invariant::{Limits, Violation};
use crate::operation::Operation;

#[derive(Clone, Debug, Default)]
pub struct History {
    /// In the order of the calls.
    pub operations: Vec<Operation>,
    /// The faults, and the state at the end.
    pub notes: Vec<(Moment, Entry)>,
}

impl History {
    /// Builds a history from lines that are in the order of each process.
    ///
    /// # Errors
    ///
    /// For an answer without a call.
    pub fn new(lines: impl IntoIterator<Item = Line>) -> Result<Self> {
        let mut history = Self::default();
        let mut open = HashMap::new();
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

    /// The lines, in the order of their times.
    #[must_use]
    pub fn lines(&self) -> Vec<Line> {
        let notes = self.notes.iter().map(|(at, note)| Line {
            at: *at,
            process: "notes".to_owned(),
            entry: note.clone(),
        });
        let operations = self.operations.iter().flat_map(|operation| {
            let Operation { process, number, call, called, answered } = operation;
            let line = |at: Moment, entry| Line { at, process: process.clone(), entry };
            let called = line(*called, Entry::Called { number: *number, call: call.clone() });
            let answered = answered.as_ref().map(|(at, answer)| {
                line(*at, Entry::Answered { number: *number, answer: answer.clone() })
            });
            [Some(called), answered].into_iter().flatten()
        });
        let mut lines: Vec<Line> = notes.chain(operations).collect();
        lines.sort_by_key(Line::order);
        lines
    }
}

/// A checker that has seen the whole history.
pub(crate) fn checked(history: &History, limits: &Limits) -> Checker {
    let mut checker = Checker::new(*limits);
    for line in history.lines() {
        checker.feed(line);
    }
    checker.advance(u64::MAX);
    checker
}

/// All violations of a history, sorted by invariant.
#[must_use]
pub fn check(history: &History, limits: &Limits) -> Vec<Violation> {
    checked(history, limits).finish().violations
}
