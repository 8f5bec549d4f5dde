//! One process leads at a time.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{Connection, is_locked, ms};
use syncguard_core::contract::{Holder, ReleaseRequest, TIME_TOLERANCE};
use syncguard_core::diagnostics::get_by_key;
use syncguard_core::{CancellationToken, DynBackend, ErrorCode, LockBackend, LockConfig};
use syncguard_memory::{MemoryBackend, TestStore};
use syncguard_recipes::{Election, ElectionHandle, TermEnd};
use tokio::task::JoinHandle;
use tokio::time::{Instant, advance, sleep, timeout};

const KEY: &str = "leader";
const TTL: Duration = Duration::from_secs(3);

/// A candidate in a task of its own, with a record of its terms.
struct Candidate {
    handle: ElectionHandle,
    shutdown: CancellationToken,
    terms: Arc<Mutex<Vec<TermRecord>>>,
    task: JoinHandle<Result<(), syncguard_core::LockError>>,
}

/// The fence of a term, its start and end by the leader's clock, and why it ended.
#[derive(Clone, Copy, Debug)]
struct TermRecord {
    fence: u64,
    began: Instant,
    told: Option<(Instant, TermEnd, Duration)>,
}

impl Candidate {
    /// Starts a candidate whose work ends when it is told to.
    fn start<B: LockBackend<Fence = syncguard_core::Fence>>(backend: B) -> Self {
        let (shutdown, terms) = (CancellationToken::new(), Arc::default());
        let election = Election::new(backend, LockConfig::new(KEY).with_ttl(TTL))
            .with_shutdown(shutdown.clone())
            .with_grace(ms(100));
        let handle = election.handle();
        let list: Arc<Mutex<Vec<TermRecord>>> = Arc::clone(&terms);
        let task = tokio::spawn(election.run(async move |term| {
            let began = Instant::now();
            list.lock().unwrap().push(TermRecord { fence: term.fence().get(), began, told: None });
            let end = term.lost().await;
            let told = (Instant::now(), end, term.valid_for());
            list.lock().unwrap().last_mut().unwrap().told = Some(told);
        }));
        Self { handle, shutdown, terms, task }
    }

    fn terms(&self) -> Vec<TermRecord> {
        self.terms.lock().unwrap().clone()
    }

    async fn leads(&self, leads: bool) {
        let mut watch = self.handle.watch();
        timeout(ms(60_000), watch.wait_for(|it| *it == leads)).await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn one_leads_and_at_shutdown_the_next_one_does() {
    let store = MemoryBackend::new();
    let mut first = Candidate::start(Connection::of(&store));
    first.leads(true).await;
    let second = Candidate::start(DynBackend::new(Connection::of(&store)));
    sleep(ms(10_000)).await;
    assert!(first.handle.is_leader() && !second.handle.is_leader());
    let stopped = Instant::now();
    first.shutdown.cancel();
    (&mut first.task).await.unwrap().unwrap();
    second.leads(true).await;
    assert!(stopped.elapsed() < ms(10), "{:?}", stopped.elapsed());
    let (end, why, left) = first.terms.lock().unwrap()[0].told.unwrap();
    assert_eq!(why, TermEnd::Shutdown);
    assert!(left > ms(1_000) && end - stopped < ms(5));
    assert!(first.terms()[0].fence < second.terms()[0].fence);
    second.shutdown.cancel();
    second.task.await.unwrap().unwrap();
    assert!(!is_locked(&store, KEY).await);
}

/// The note of a term tells it from other locks, unless the program has chosen another note.
#[tokio::test(start_paused = true)]
async fn a_term_says_that_it_is_one() {
    let store = MemoryBackend::new();
    let held_by = async |config: LockConfig| {
        let election = Election::new(store.clone(), config);
        let (handle, shutdown) = (election.handle(), CancellationToken::new());
        let run = tokio::spawn(election.with_shutdown(shutdown.clone()).run(async |term| {
            term.lost().await;
        }));
        handle.watch().wait_for(|leads| *leads).await.unwrap();
        let term = get_by_key(&store, KEY).await.unwrap().unwrap();
        shutdown.cancel();
        run.await.unwrap().unwrap();
        term.holder.map(|it| (it.label().to_owned(), it.note().map(str::to_owned)))
    };
    let texts = |label: &str, note: &str| Some((label.to_owned(), Some(note.to_owned())));
    let named = |label: &str| LockConfig::new(KEY).with_holder(label);
    let here = Holder::this_process();
    assert_eq!(held_by(LockConfig::new(KEY)).await, texts(here.label(), "election"));
    assert_eq!(held_by(named("web")).await, texts("web", "election"));
    assert_eq!(held_by(named("web").with_note("run 4711")).await, texts("web", "run 4711"));
    assert_eq!(held_by(named("")).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_resignation_lets_others_go_first() {
    let store = MemoryBackend::new();
    let (first, second) = (Candidate::start(Connection::of(&store)), Connection::of(&store));
    first.leads(true).await;
    let second = Candidate::start(second);
    sleep(ms(100)).await;
    let resigned = Instant::now();
    first.handle.resign();
    second.leads(true).await;
    // The release, at most 3 ms after its signal, a poll, and the acquire.
    assert!(resigned.elapsed() <= ms(10), "{:?}", resigned.elapsed());
    assert_eq!(first.terms()[0].told.unwrap().1, TermEnd::Resigned);
    // The first process is a candidate again.
    sleep(ms(5_000)).await;
    second.handle.resign();
    first.leads(true).await;
    let fences = [first.terms()[0].fence, second.terms()[0].fence, first.terms()[1].fence];
    assert!(fences.is_sorted(), "{fences:?}");
}

/// A leader that loses its connection stops before another process can get the lock.
#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_stops_in_time() {
    let store = MemoryBackend::new();
    let line = Connection::of(&store);
    let first = Candidate::start(line.clone());
    first.leads(true).await;
    let second = Candidate::start(Connection::of(&store));
    sleep(ms(5_500)).await;
    let cut = Instant::now();
    line.cut(true);
    second.leads(true).await;
    assert!(cut.elapsed() <= TTL + TIME_TOLERANCE + ms(1_000), "{:?}", cut.elapsed());
    let (told, why, left) = first.terms()[0].told.unwrap();
    assert_eq!(why, TermEnd::Lost);
    // A fifth of the TTL was left, and the second term began only after that.
    assert!(left > TTL / 10 && left <= TTL / 5, "{left:?}");
    assert!(told + left <= second.terms()[0].began);
    line.cut(false);
    sleep(ms(100)).await;
    assert!(!first.handle.is_leader());
    second.shutdown.cancel();
    first.leads(true).await;
}

/// Work that ignores the end of its term is dropped while the lock is still valid.
#[tokio::test(start_paused = true)]
async fn work_that_does_not_listen_is_dropped_in_time() {
    struct NoteOnDrop(Arc<Mutex<Option<(Instant, Duration)>>>, syncguard_recipes::Term);
    impl Drop for NoteOnDrop {
        fn drop(&mut self) {
            *self.0.lock().unwrap() = Some((Instant::now(), self.1.valid_for()));
        }
    }
    let line = Connection::new();
    let noted = Arc::new(Mutex::new(None));
    let election = Election::new(line.clone(), LockConfig::new(KEY).with_ttl(TTL));
    let handle = election.handle();
    let note = Arc::clone(&noted);
    tokio::spawn(election.run(async move |term| {
        let _noted = NoteOnDrop(Arc::clone(&note), term);
        std::future::pending::<()>().await;
    }));
    handle.watch().wait_for(|leads| *leads).await.unwrap();
    line.cut(true);
    handle.watch().wait_for(|leads| !*leads).await.unwrap();
    sleep(TTL / 5).await;
    let (_, left) = noted.lock().unwrap().expect("dropped");
    assert!(left > Duration::ZERO && left <= TTL / 10, "{left:?}");

    // At a shutdown it has the grace, in which the process leads no more.
    let shutdown = CancellationToken::new();
    let election = Election::new(Connection::new(), KEY).with_shutdown(shutdown.clone());
    let handle = election.handle();
    let run =
        tokio::spawn(election.with_grace(ms(500)).run(async |_| std::future::pending().await));
    handle.watch().wait_for(|leads| *leads).await.unwrap();
    shutdown.cancel();
    sleep(ms(400)).await;
    assert!(!handle.is_leader() && !run.is_finished());
    timeout(ms(200), run).await.expect("dropped").unwrap().unwrap();
}

/// The machine slept, or the process was stopped, past the end of the term.
#[tokio::test(start_paused = true)]
async fn after_a_stall_the_work_is_not_touched_any_more() {
    let line = Connection::new();
    let touched = Arc::new(AtomicU32::new(0));
    let election = Election::new(line.clone(), LockConfig::new(KEY).with_ttl(TTL));
    let handle = election.handle();
    let count = Arc::clone(&touched);
    tokio::spawn(election.run(async move |_term| {
        loop {
            sleep(ms(100)).await;
            count.fetch_add(1, Ordering::Relaxed);
        }
    }));
    handle.watch().wait_for(|leads| *leads).await.unwrap();
    sleep(ms(150)).await;
    assert_eq!(touched.load(Ordering::Relaxed), 1);
    line.cut(true);
    advance(TTL * 2).await;
    handle.watch().wait_for(|leads| !*leads).await.unwrap();
    assert_eq!(touched.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_taken_away_ends_the_term() {
    let line = Connection::new();
    let first = Candidate::start(line.clone());
    first.leads(true).await;
    sleep(ms(10)).await;
    let lock = get_by_key(&line, KEY).await.unwrap().unwrap();
    let id = lock.lock_id.expose().parse().unwrap();
    line.store.release(ReleaseRequest::new(id)).await.unwrap();
    first.leads(false).await;
    first.leads(true).await;
    // Another process may have the lock already, so the work was dropped without being told.
    let terms = first.terms();
    assert!(terms[0].told.is_none() && terms[0].fence < terms[1].fence);
}

#[tokio::test(start_paused = true)]
async fn work_that_ends_is_a_resignation_and_a_dropped_run_gives_the_lock_back() {
    let line = Connection::new();
    let runs = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&runs);
    let election = Election::new(line.clone(), LockConfig::new(KEY).with_ttl(TTL));
    let run = election.run(async move |term| {
        count.fetch_add(1, Ordering::Relaxed);
        if count.load(Ordering::Relaxed) == 3 {
            let _ = term.lost().await;
        }
    });
    assert!(timeout(ms(10_500), run).await.is_err());
    assert_eq!(runs.load(Ordering::Relaxed), 3);
    sleep(ms(10)).await;
    assert!(!is_locked(&line, KEY).await);
}

/// Spawned work goes on when `run` is dropped; its token tells it to stop.
#[tokio::test(start_paused = true)]
async fn spawned_work_is_told_when_the_run_is_dropped() {
    let line = Connection::new();
    let (sender, token) = tokio::sync::oneshot::channel();
    let mut sender = Some(sender);
    let run =
        Election::new(line.clone(), LockConfig::new(KEY).with_ttl(TTL)).run(async move |term| {
            if let Some(sender) = sender.take() {
                let _ = sender
                    .send((term.lost_token(), tokio::spawn(async move { term.lost().await })));
            }
            std::future::pending::<()>().await;
        });
    assert!(timeout(ms(100), run).await.is_err());
    let (token, spawned) = token.await.unwrap();
    timeout(ms(10), token.cancelled()).await.expect("the token fires at once");
    let end = timeout(ms(10), spawned).await.expect("the work is told at once");
    assert_eq!(end.unwrap(), TermEnd::Resigned);
}

#[tokio::test(start_paused = true)]
async fn the_campaign_outlives_an_outage_and_ends_for_what_no_retry_gets_over() {
    let line = Connection::new();
    line.cut(true);
    let candidate = Candidate::start(line.clone());
    sleep(ms(10_000)).await;
    let tries = line.counts.acquires.load(Ordering::Relaxed);
    assert!((10..30).contains(&tries), "{tries}");
    line.cut(false);
    candidate.leads(true).await;

    let config = || LockConfig::new(KEY);
    let bad = [
        Election::new(line.clone(), ""),
        Election::new(line.clone(), config().with_ttl(Duration::ZERO)),
        Election::new(line.clone(), config().with_wait_up_to(TTL)),
        Election::new(line.clone(), config().with_ride_out(TTL)),
        Election::new(line.clone(), config().with_cancellation(CancellationToken::new())),
        Election::new(line.clone(), LockConfig::new(KEY).with_ttl(TTL))
            .with_notice(TTL / 2 + ms(1)),
        Election::new(line.clone(), KEY).with_notice(Duration::ZERO),
        Election::new(line.clone(), KEY).with_grace(Duration::MAX),
    ];
    for election in bad {
        let error = timeout(ms(60_000), election.run(async |_| {})).await.expect("no campaign");
        assert_eq!(error.unwrap_err().code(), ErrorCode::InvalidArgument);
    }
    let store = TestStore::new();
    store.set_writes_denied(true);
    let ends = timeout(ms(60_000), Election::new(store, KEY).run(async |_| {}));
    assert_eq!(ends.await.expect("no retry").unwrap_err().code(), ErrorCode::AuthFailed);
}
