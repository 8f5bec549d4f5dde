//! The queue of programs.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};

use super::lanes::Lane;
use super::program::Program;

/// The programs that wait, the longest first, each with its number.
pub(super) struct Queue {
    state: Mutex<State>,
    lane_is_free: Condvar,
}

struct State {
    waiting: VecDeque<(usize, Program)>,
    busy: Vec<Lane>,
}

impl Queue {
    pub(super) fn new(programs: Vec<Program>) -> Self {
        let waiting = programs.into_iter().enumerate().collect();
        let state = Mutex::new(State { waiting, busy: Vec::new() });
        Self { state, lane_is_free: Condvar::new() }
    }

    /// Waits for a program whose lane is free; `None` after the last program.
    pub(super) fn next(&self) -> Option<(usize, Program)> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if state.waiting.is_empty() {
                return None;
            }
            if let Some(next) = state.take() {
                return Some(next);
            }
            let waited = self.lane_is_free.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Frees the lane of a program that has ended.
    pub(super) fn ended(&self, lane: Lane) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.busy.retain(|busy| *busy != lane);
        drop(state);
        self.lane_is_free.notify_all();
    }
}

impl State {
    fn take(&mut self) -> Option<(usize, Program)> {
        let Self { waiting, busy } = self;
        let is_free = |lane: Lane| !lane.is_for_one() || !busy.contains(&lane);
        let at = waiting.iter().position(|(_, program)| is_free(program.lane))?;
        let next = waiting.remove(at)?;
        busy.push(next.1.lane);
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn of_each_lane_but_the_quick_one_a_program_runs_at_a_time() {
        let program = |name: &str, lane| {
            let (name, command) = (name.to_owned(), Command::new("true"));
            Program { name, lane, is_example: false, command }
        };
        let queue = Queue::new(vec![
            program("a", Lane::Redis),
            program("b", Lane::Redis),
            program("c", Lane::Compute),
            program("d", Lane::Quick),
            program("e", Lane::Quick),
        ]);
        let name = || queue.next().map(|(_, program)| program.name);
        let four = [name(), name(), name(), name()].map(Option::unwrap_or_default);
        assert_eq!(four, ["a", "c", "d", "e"]);
        queue.ended(Lane::Compute);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(name);
            queue.ended(Lane::Redis);
            assert_eq!(waiting.join().unwrap().as_deref(), Some("b"));
        });
        assert_eq!(name(), None);
    }
}
