//! Records a read or a write under a read/write lock.

use std::time::Duration;

use crate::event::Entry;
use crate::recorder::Recorder;

/// A read or a write that is recorded. Dropped, it is over: drop it before the guard.
#[derive(Debug)]
pub struct Using {
    recorder: Recorder,
    key: &'static str,
    number: u64,
    writes: bool,
    fence: u64,
}

impl Using {
    /// A use with a number of its own. It begins with the first [`relies`](Self::relies).
    #[must_use]
    pub fn new(
        recorder: &Recorder,
        key: &'static str,
        number: u64,
        writes: bool,
        fence: u64,
    ) -> Self {
        Self { recorder: recorder.clone(), key, number, writes, fence }
    }

    /// Records for how long the user may rely on the lock. A process can be stopped at any point of this: the time is that
    /// before the question.
    pub fn relies(&self, valid_for: impl FnOnce() -> Duration) {
        let now = self.recorder.now().steady;
        let left = u64::try_from(valid_for().as_micros()).unwrap_or_default();
        self.note(now + left);
    }

    fn note(&self, until: u64) {
        let Self { key, number, writes, fence, .. } = *self;
        self.recorder.note(Entry::Uses { key: key.to_owned(), number, writes, fence, until });
    }
}

impl Drop for Using {
    fn drop(&mut self) {
        self.note(0);
    }
}
