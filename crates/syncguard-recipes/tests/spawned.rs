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

/// Runs a recipe with work in each form: spawned itself, and inside of a block that is spawned.
macro_rules! each_form {
    ($recipe:ident, $part:ident, $backend:expr) => {
        for form in 0..5 {
            let (service, backend) = (Service::new(), $backend(MemoryBackend::new()));
            let state = Arc::clone(&service);
            let recipe = $recipe(backend, &service);
            let task = match form {
                0 => tokio::spawn(recipe.run(async move |part| state.call(part.fence()).await)),
                1 => tokio::spawn(async move {
                    recipe.run(async move |part| state.call(part.fence()).await).await
                }),
                2 => tokio::spawn(recipe.run(move |part: $part<B::Fence>| {
                    let state = Arc::clone(&state);
                    async move { state.call(part.fence()).await }
                })),
                3 => tokio::spawn(async move {
                    let work = move |part: $part<B::Fence>| {
                        let state = Arc::clone(&state);
                        async move { state.call(part.fence()).await }
                    };
                    recipe.run(work).await
                }),
                _ => tokio::spawn(async move {
                    let mut count = 0;
                    let work = async move |part: $part<B::Fence>| {
                        count += 1;
                        state.call((part.fence(), count)).await;
                    };
                    recipe.run(work).await
                }),
            };
            task.await.unwrap().unwrap();
            assert_eq!(service.calls.load(Ordering::Relaxed), 1, "{form}");
        }
    };
}

async fn each_form<B: LockBackend>(backend: impl Fn(MemoryBackend) -> B) {
    each_form!(election, Term, backend);
    each_form!(ticks, Tick, backend);
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
        let semaphore = Semaphore::new(backend.clone(), "permits", 2);
        let permit = semaphore.acquire().await?;
        state.call(permit.fence()).await;
        let set = lock_all(&backend, ["b", "c"].map(LockConfig::new)).await?;
        state.call(set.fences().count()).await;
        let resource = RwLock::new(backend.clone(), "resource", 2);
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
