//! For tests: holds operations back before they reach the writer thread.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::config::{Passage, Sending, SqliteOptions};

/// Holds operations back before they reach the writer thread, like a slow network before other stores.
/// Clones share one gate.
#[derive(Clone, Default)]
pub struct Gate(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    is_shut: bool,
    held: Vec<Sending>,
}

impl SqliteOptions {
    /// Sets a gate that holds operations back before they reach the writer thread.
    pub fn with_gate(mut self, gate: Gate) -> Self {
        self.gate = Some(Passage(Arc::new(move |pass_on| gate.pass(pass_on))));
        self
    }
}

impl Gate {
    /// Holds back the operations that come from now on.
    pub fn hold(&self) {
        self.lock().is_shut = true;
    }

    /// Returns whether an operation is held back now.
    #[must_use]
    pub fn holds(&self) -> bool {
        !self.lock().held.is_empty()
    }

    /// Lets later operations pass; operations that are held back stay so.
    pub fn cut(&self) {
        self.lock().is_shut = false;
    }

    /// Passes on the operations that are held back, in their order, and lets later operations pass.
    pub fn deliver(&self) {
        let held = {
            let mut state = self.lock();
            state.is_shut = false;
            std::mem::take(&mut state.held)
        };
        for pass_on in held {
            pass_on();
        }
    }

    /// Calls `pass_on` now, or when the gate delivers.
    fn pass(&self, pass_on: Sending) {
        {
            let mut state = self.lock();
            if state.is_shut {
                state.held.push(pass_on);
                return;
            }
        }
        pass_on();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("holds", &self.holds()).finish()
    }
}
