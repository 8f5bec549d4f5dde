//! The work of a child process.

use anyhow::Result;
use syncguard_core::Locker;

use crate::far::Far;
use crate::job::{Job, Way};
use crate::poller::Poller;
use crate::process::tell;
use crate::{contest, crash};

pub(crate) async fn run(url: &str, job: &Job) -> Result<()> {
    let backend = syncguard::connect(url).await?;
    let contest = match job {
        Job::Contest(contest) => contest,
        Job::Hold(keys) => return crash::hold(backend, keys).await,
    };
    let outcome = match contest.way {
        Way::Ours if contest.latency.is_zero() => {
            contest::run(contest, Locker::new(backend)).await?
        }
        Way::Ours => {
            let far = Far { inner: backend, latency: contest.latency };
            contest::run(contest, Locker::new(far)).await?
        }
        Way::TypeScript => contest::run(contest, Poller::new(url).await?).await?,
    };
    tell(&outcome)
}
