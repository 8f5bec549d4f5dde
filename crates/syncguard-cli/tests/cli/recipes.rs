//! Locks of recipes, as `ls`, `status` and `watch` show them.

use std::sync::mpsc::{Sender, channel};
use std::thread;

use anyhow::{Context as _, Result, ensure};
use expect_test::expect_file;
use syncguard::recipes::{Election, ElectionHandle, Term};
use syncguard::{CancellationToken, LockConfig};
use syncguard_test_services::wait;
use tokio::runtime::Builder;

use crate::harness::{Harness, LONG, StoreTest};
use crate::schema::Schema;
use crate::transcript::Transcript;

pub(crate) const ON_EVERY_STORE: &[StoreTest] = &[("recipes", recipes)];

/// Terms, ticks and permits have their recipe; other locks have none.
fn recipes(harness: &Harness) -> Result<()> {
    let shutdown = CancellationToken::new();
    let (url, until, (sender, handles)) = (harness.url.clone(), shutdown.clone(), channel());
    let leaders = thread::spawn(move || lead(&url, &until, &sender));
    for handle in handles.recv().context("a failed election")? {
        wait::until("a leader", LONG, || Ok(handle.is_leader()))?;
    }
    let tick = ["--tick", "0 0 29 2 *", "--max-lateness", "9years"];
    let holders = [("lock", &[][..]), ("permit", &["--permits", "1"]), ("tick", &tick)]
        .map(|(key, options)| harness.holder(&format!("recipe:{key}"), options));

    let mut all = Transcript::on(harness);
    all.run(&[
        &["ls", "recipe:"],
        &["ls", "recipe:", "--json"],
        &["status", "recipe:noted"],
        &["status", "recipe:term"],
        &["status", "recipe:term", "--json"],
        &["status", "recipe:tick"],
    ])?;
    let watched = harness.start(&["watch", "--json", "recipe:"])?.line()?;
    ensure!(watched.matches("\"recipe\":").count() == 3, "{watched}");
    Schema::of("watch")?.check_lines(&watched)?;

    shutdown.cancel();
    leaders.join().ok().context("a thread that panicked")??;
    holders.into_iter().try_for_each(|holder| holder?.end()?.expect(0).map(drop))?;
    expect_file!["snapshots/recipes.txt"].assert_eq(&all.text);
    Ok(())
}

/// Leads in three elections until the token fires.
fn lead(
    url: &str,
    shutdown: &CancellationToken,
    handles: &Sender<[ElectionHandle; 3]>,
) -> Result<()> {
    async fn work(term: Term) {
        term.lost().await;
    }

    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let backend = syncguard::connect(url).await?;
        let elections = [
            LockConfig::new("recipe:term"),
            LockConfig::new("recipe:noted").with_note("run 4711"),
            LockConfig::new("recipe:unnamed").without_holder(),
        ];
        let elections = elections
            .map(|config| Election::new(backend.clone(), config).with_shutdown(shutdown.clone()));
        handles.send(elections.each_ref().map(Election::handle))?;
        let [one, two, three] = elections.map(|election| election.run(work));
        tokio::try_join!(one, two, three)?;
        Ok(())
    })
}
