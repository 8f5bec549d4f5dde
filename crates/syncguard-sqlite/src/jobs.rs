//! Operations that are done together.

use syncguard_core::LockError;

use crate::job::Job;

pub(crate) type Jobs = Vec<Box<dyn Job>>;

/// Those of which this is so, and the others.
pub(crate) fn partition(jobs: Jobs, mut choice: impl FnMut(&mut dyn Job) -> bool) -> (Jobs, Jobs) {
    let (mut chosen, mut others) = (Vec::with_capacity(jobs.len()), Vec::new());
    for mut job in jobs {
        if choice(&mut *job) {
            chosen.push(job);
        } else {
            others.push(job);
        }
    }
    (chosen, others)
}

/// Nothing of them is in the file.
pub(crate) fn unbegun(mut jobs: Jobs) -> Jobs {
    for job in &mut jobs {
        job.unbegin();
    }
    jobs
}

/// Tells each the answer that it has got.
pub(crate) fn answer(jobs: Jobs) {
    for job in jobs {
        job.answer();
    }
}

/// Tells each that it failed.
pub(crate) fn fail(jobs: Jobs, error: &LockError) {
    for job in jobs {
        job.fail(error);
    }
}
