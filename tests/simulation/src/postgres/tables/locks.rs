//! Locks of statements, in the order of the requests.

use std::collections::{HashMap, VecDeque};

#[derive(Debug, Default)]
pub(super) struct Locks(HashMap<String, (usize, VecDeque<usize>)>);

impl Locks {
    /// Returns true if the statement has the lock now; otherwise it waits in the queue.
    pub(super) fn take(&mut self, key: &str, statement: usize) -> bool {
        if let Some((holder, line)) = self.0.get_mut(key) {
            if *holder != statement && !line.contains(&statement) {
                line.push_back(statement);
            }
            return *holder == statement;
        }
        self.0.insert(key.to_owned(), (statement, VecDeque::new()));
        true
    }

    pub(super) fn is_free(&self, key: &str) -> bool {
        !self.0.contains_key(key)
    }

    /// Gives up all locks and waits of a statement; returns the statements that go on.
    pub(super) fn give_up(&mut self, key: &str, statement: usize, woken: &mut Vec<usize>) {
        let Some((holder, line)) = self.0.get_mut(key) else { return };
        line.retain(|other| *other != statement);
        if *holder != statement {
            return;
        }
        match line.pop_front() {
            Some(next) => {
                *holder = next;
                woken.push(next);
            }
            None => {
                self.0.remove(key);
            }
        }
    }
}
