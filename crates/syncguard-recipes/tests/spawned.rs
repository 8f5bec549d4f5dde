//! Work with captured state, in spawned tasks: that these forms compile is most of the test.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use syncguard_core::{
    CancellationToken, DynBackend, Held, LockBackend, LockConfig, LockError, lock,
};
use syncguard_memory::MemoryBackend;
use syncguard_recipes::{
    Election, RwLock, Schedule, Semaphore, Term, Tick, TickOutcome, Ticks, lock_all,
};
use tokio::time::Instant;

/// The state of a service.
struct Service {
    began: SystemTime,
    at: Instant,
    calls: AtomicU32,
    stop: CancellationToken,
}

impl Service {
    /// Its clock is the store's, if both begin at once.
    fn new() -> Arc<Self> {
        let (calls, stop) = (AtomicU32::new(0), CancellationToken::new());
        Arc::new(Self { began: SystemTime::now(), at: Instant::now(), calls, stop })
    }

    async fn call(&self, _fence: impl Sized) {
        tokio::task::yield_now().await;
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.stop.cancel();
    }
}

fn election<B: LockBackend>(backend: B, service: &Service) -> Election<B> {
    Election::new(backend, "leader").with_shutdown(service.stop.clone())
}

fn ticks<B: LockBackend>(backend: B, service: &Arc<Service>) -> Ticks<B> {
    let (every, clock) = (Schedule::every(Duration::from_secs(1)).unwrap(), Arc::clone(service));
    Ticks::new(backend, "ticks", every)
        .with_shutdown(service.stop.clone())
        .with_clock(Arc::new(move || clock.began + clock.at.elapsed()))
}

/// Each form twice: spawned itself, and inside of a block that is spawned.
async fn each_form<B: LockBackend>(backend: impl Fn(MemoryBackend) -> B) {
    for form in 0..8 {
        let (service, backend) = (Service::new(), backend(MemoryBackend::new()));
        let state = Arc::clone(&service);
        let task = match form {
            0 => tokio::spawn(
                election(backend, &service).run(async move |term| state.call(term.fence()).await),
            ),
            1 => tokio::spawn(async move {
                let election = election(backend, &state);
                election.run(async move |term| state.call(term.fence()).await).await
            }),
            2 => tokio::spawn(election(backend, &service).run(move |term: Term<B::Fence>| {
                let state = Arc::clone(&state);
                async move { state.call(term.fence()).await }
            })),
            3 => tokio::spawn(async move {
                let election = election(backend, &state);
                let work = move |term: Term<B::Fence>| {
                    let state = Arc::clone(&state);
                    async move { state.call(term.fence()).await }
                };
                election.run(work).await
            }),
            4 => tokio::spawn(
                ticks(backend, &service).run(async move |tick| state.call(tick.fence()).await),
            ),
            5 => tokio::spawn(async move {
                let ticks = ticks(backend, &state);
                ticks.run(async move |tick| state.call(tick.fence()).await).await
            }),
            6 => tokio::spawn(ticks(backend, &service).run(move |tick: Tick<B::Fence>| {
                let state = Arc::clone(&state);
                async move { state.call(tick.fence()).await }
            })),
            _ => tokio::spawn(async move {
                let ticks = ticks(backend, &state);
                let mut count = 0;
                ticks
                    .run(async move |tick| {
                        count += 1;
                        state.call((tick.fence(), count)).await;
                    })
                    .await
            }),
        };
        task.await.unwrap().unwrap();
        assert_eq!(service.calls.load(Ordering::Relaxed), 1, "{form}");
    }
}

/// Work that is called once may also borrow.
async fn each_form_of_work_that_is_called_once<B: LockBackend>(backend: B) {
    let service = Service::new();
    let state = Arc::clone(&service);
    let ran = tokio::spawn(async move {
        lock(&backend, "a", async |held| state.call(held.fence()).await).await?;
        lock(&backend, "a", |held: Held<B::Fence>| {
            let state = &state;
            async move { state.call(held.fence()).await }
        })
        .await?;
        lock(&backend, "a", async |held| {
            state.call(held.fence()).await;
            Ok::<_, LockError>(())
        })
        .await??;
        let semaphore = Semaphore::new(backend.clone(), "permits", 2)?;
        let permit = semaphore.acquire().await?;
        state.call(permit.fence()).await;
        let set = lock_all(&backend, ["b", "c"].map(LockConfig::new)).await?;
        state.call(set.fences().count()).await;
        let resource = RwLock::new(backend.clone(), "resource", 2)?;
        let read = resource.read().await?;
        state.call(&read).await;
        drop((permit, set, read));
        let ticks = ticks(backend.clone(), &state);
        ticks.try_once(async |tick| state.call(tick.fence()).await).await?;
        ticks.try_once(|tick| async move { state.call(tick.fence()).await }).await
    });
    assert_eq!(ran.await.unwrap().unwrap(), TickOutcome::Taken);
    assert_eq!(service.calls.load(Ordering::Relaxed), 7);
}

#[tokio::test(start_paused = true)]
async fn work_in_spawned_tasks_has_state() {
    each_form(|store| store).await;
    each_form(DynBackend::new).await;
    each_form_of_work_that_is_called_once(MemoryBackend::new()).await;
}
