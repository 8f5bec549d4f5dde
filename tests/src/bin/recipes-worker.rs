//! A process that uses a recipe until SIGTERM or SIGKILL.
//!
//! `recipes-worker RECIPE LOCKS-URL HISTORY-FILE NAME KEY TTL-IN-MS [PERMITS]`
//!
//! The recipes: `election`, which resigns at SIGUSR1; `semaphore`, with four tasks; `hold`, which takes all permits
//! and keeps them; `cron`, which tries for its turn in each period of two seconds, and keeps it for a minimum time;
//! `ticks`, which runs the ticks of many schedules by a clock that is off.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use syncguard::{CancellationToken, LockBackend as _};
use syncguard_history::Recording;
use syncguard_history::{Entry, Recorder};
use syncguard_tests::fleet::recipes::Recipe;
use syncguard_tests::fleet::{connect, settled};
use tokio::signal::unix::{SignalKind, signal};

/// The period of the cron.
const PERIOD: Duration = Duration::from_secs(2);
const MIN_HOLD: Duration = Duration::from_millis(1_500);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [recipe, locks, file, name, key, ttl, rest @ ..] = arguments.as_slice() else {
        bail!("recipes-worker RECIPE LOCKS HISTORY-FILE NAME KEY TTL-IN-MS [PERMITS]");
    };
    let (stop, mut terminated) = (CancellationToken::new(), signal(SignalKind::terminate())?);
    let recorder = Recorder::to_file(name, Path::new(file))?;
    let connected = connect(locks).await?;
    let worker = Recipe {
        backend: Recording::new(connected.backend.clone(), recorder.clone()),
        recorder: recorder.clone(),
        key: key.clone(),
        ttl: Duration::from_millis(ttl.parse()?),
        stop: stop.clone(),
    };
    tokio::spawn(async move {
        terminated.recv().await;
        stop.cancel();
    });
    match recipe.as_str() {
        "election" => {
            let mut asked = signal(SignalKind::user_defined1())?;
            let resigns = |handle: syncguard::recipes::ElectionHandle| {
                tokio::spawn(async move {
                    while asked.recv().await.is_some() {
                        handle.resign();
                    }
                });
            };
            worker.election(resigns).await?;
        }
        "semaphore" => worker.semaphore(rest.first().context("PERMITS")?.parse()?).await?,
        "hold" => worker.hold(rest.first().context("PERMITS")?.parse()?).await?,
        "cron" => {
            let skew = rest.first().context("SKEW-IN-MS")?.parse()?;
            worker.cron(PERIOD, MIN_HOLD, skew).await?;
        }
        "ticks" => {
            let [keys, off] = rest else { bail!("KEYS OFF-IN-MS") };
            worker.ticks(keys.parse()?, off.parse()?).await?;
        }
        other => bail!("no recipe {other}"),
    }
    // Operations without a caller go on for a while: a cancelled acquire may still be granted.
    let left = connected.backend.client_state().drained(Duration::from_secs(30)).await;
    ensure!(left == 0, "{left} locks are not given back");
    let borrowed = settled(|| connected.borrowed()).await;
    recorder.note(Entry::Quiet { live: 0, tasks: 0, borrowed });
    Ok(())
}
