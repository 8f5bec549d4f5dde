//! For tests: operations that are held back before they reach the file.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Holds operations back before they reach the file, as a slow network does elsewhere. Clones are one gate.
#[derive(Clone, Default)]
pub struct Gate(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    is_shut: bool,
    held: Vec<Box<dyn FnOnce() + Send>>,
}

impl Gate {
    /// Holds back what comes from now on.
    pub fn hold(&self) {
        self.lock().is_shut = true;
    }

    /// Whether something is held back now.
    #[must_use]
    pub fn holds(&self) -> bool {
        !self.lock().held.is_empty()
    }

    /// Lets pass what comes from now on; what is held back stays.
    pub fn cut(&self) {
        self.lock().is_shut = false;
    }

    /// Passes on what is held back, in its order, and lets pass what comes.
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

    /// Passes something on, now or later.
    pub(crate) fn pass(&self, pass_on: impl FnOnce() + Send + 'static) {
        {
            let mut state = self.lock();
            if state.is_shut {
                state.held.push(Box::new(pass_on));
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
