//! Many readers or one writer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::common::{Connection, is_locked, ms};
use syncguard_core::inventory::ListRequest;
use syncguard_core::{
    AcquisitionOptions, CancellationToken, DynBackend, ErrorCode, Fence, IntoKey as _, LockBackend,
    LockConfig, LossReason, try_acquire,
};
use syncguard_memory::{MemoryBackend, TestStore};
use syncguard_recipes::{ReadGuard, RwLock, WriteGuard};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

const KEY: &str = "it";
const SLOTS: u32 = 4;
const MINUTE: Duration = Duration::from_secs(60);

/// A process on this store.
fn process(store: &MemoryBackend) -> RwLock<Connection> {
    of(&Connection::of(store), SLOTS)
}

fn of(line: &Connection, slots: u32) -> RwLock<Connection> {
    RwLock::new(line.clone(), LockConfig::new(KEY).with_ttl(ms(900)).with_wait_up_to(MINUTE), slots)
}

/// The live locks of the store, in order.
async fn locks(store: &MemoryBackend) -> Vec<String> {
    let page = store.inventory().unwrap().list_locks(ListRequest::new()).await.unwrap();
    let keys = page.entries.into_iter().map(|info| info.key.expose().to_owned());
    keys.collect()
}

#[tokio::test(start_paused = true)]
async fn what_it_costs() {
    let line = Connection::new();
    let lock = of(&line, SLOTS);
    let acquires = || line.counts.acquires.load(Ordering::Relaxed);
    // The first reader ever announces the number of slots, which is no acquire.
    let started = Instant::now();
    let (first, second) = tokio::join!(lock.read(), lock.read());
    assert_eq!((acquires(), started.elapsed()), (2, 2 * line.takes), "the gate and a slot");
    let (first, _) = (first.unwrap(), second.unwrap());
    sleep(ms(10)).await;
    let before = line.counts.commands();
    let more: Vec<_> = futures_util::future::join_all((0..100).map(|_| lock.read())).await;
    assert_eq!(line.counts.commands(), before, "a process that reads already");
    assert!(more.iter().all(|read| read.as_ref().unwrap().fence() == first.fence()));
    drop(more);
    first.release().await.unwrap();
    sleep(ms(10)).await;
    assert_eq!((line.counts.commands() - before, locks(&line.store).await.len()), (1, 0));

    let (before, started) = (acquires(), Instant::now());
    let write = lock.write().await.unwrap();
    assert_eq!((acquires() - before, started.elapsed()), (SLOTS + 1, 2 * line.takes));
    assert_eq!(
        locks(&line.store).await,
        ["it:rw:0", "it:rw:1", "it:rw:2", "it:rw:3", "it:rw:gate"]
    );
    let started = Instant::now();
    assert!(write.release().await.unwrap().is_released());
    assert_eq!((started.elapsed(), locks(&line.store).await.len()), (line.takes, 0));
}

#[tokio::test(start_paused = true)]
async fn bad_arguments_are_refused_before_anything_is_sent() {
    let line = Connection::new();
    let set = || LockConfig::new(KEY);
    let retries = AcquisitionOptions::new().with_max_retries(3);
    for (config, slots) in [
        (LockConfig::new(""), 4),
        (set(), 0),
        (set(), 65),
        (LockConfig::new("k".repeat(505)), 4),
        (set().with_ttl(Duration::ZERO), 4),
        (set().with_min_hold(ms(10)), 4),
        (set().with_acquisition(retries), 4),
    ] {
        let lock = RwLock::new(line.clone(), config, slots);
        assert_eq!(lock.read().await.unwrap_err().code(), ErrorCode::InvalidArgument);
        assert_eq!(lock.try_write().await.unwrap_err().code(), ErrorCode::InvalidArgument);
    }
    assert_eq!(line.counts.commands(), 0);
    let longest = RwLock::new(line.clone(), "k".repeat(504), 64);
    drop(longest.write().await.unwrap());
}

/// The users of several processes, in any order: nobody beside a writer, and the fences in the order of the uses.
#[tokio::test(start_paused = true)]
async fn readers_and_writers_never_meet() {
    let store = MemoryBackend::new();
    let (readers, writers) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (highest, last) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let most = Arc::new(AtomicU32::new(0));
    let mut tasks = JoinSet::new();
    // Six processes with four tasks each, of which one writes.
    let locks_of: Vec<_> = (0..6).map(|_| process(&store)).collect();
    for number in 0..24_u64 {
        let lock = locks_of[usize::try_from(number / 4).unwrap()].clone();
        let (readers, writers, most) = (readers.clone(), writers.clone(), most.clone());
        let (highest, last) = (highest.clone(), last.clone());
        tasks.spawn(async move {
            for round in 0..30 {
                sleep(ms(number * 7 % 13 + round % 3)).await;
                if number % 4 == 0 {
                    let write = lock.write().await.unwrap();
                    assert_eq!(writers.fetch_add(1, Ordering::Relaxed), 0);
                    assert_eq!(readers.load(Ordering::Relaxed), 0);
                    let fence = write.fence().get();
                    assert!(fence > highest.fetch_max(fence, Ordering::Relaxed), "above all");
                    last.fetch_max(fence, Ordering::Relaxed);
                    sleep(ms(round % 5)).await;
                    writers.fetch_sub(1, Ordering::Relaxed);
                    if round % 3 == 0 {
                        let read = write.downgrade();
                        readers.fetch_add(1, Ordering::Relaxed);
                        sleep(ms(2)).await;
                        assert_eq!(read.fence().get(), last.load(Ordering::Relaxed));
                        readers.fetch_sub(1, Ordering::Relaxed);
                    }
                } else {
                    let read = lock.read().await.unwrap();
                    most.fetch_max(readers.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                    assert_eq!(writers.load(Ordering::Relaxed), 0);
                    let fence = read.fence().get();
                    highest.fetch_max(fence, Ordering::Relaxed);
                    assert!(fence >= last.load(Ordering::Relaxed), "it sees the last write");
                    sleep(ms(round % 4)).await;
                    assert!(fence >= last.load(Ordering::Relaxed));
                    readers.fetch_sub(1, Ordering::Relaxed);
                }
            }
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
    assert!(most.load(Ordering::Relaxed) > 1, "readers read together");
    sleep(ms(20)).await;
    assert_eq!(locks(&store).await, [""; 0]);
}

/// Two processes read without a pause, each with two readers that take turns.
#[tokio::test(start_paused = true)]
async fn readers_do_not_starve_a_writer() {
    let store = MemoryBackend::new();
    let (stop, reads) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let mut tasks = JoinSet::new();
    for lock in [process(&store), process(&store)] {
        for reader in 0..2 {
            let (lock, stop, reads) = (lock.clone(), stop.clone(), reads.clone());
            tasks.spawn(async move {
                sleep(ms(10 * reader)).await;
                while !stop.load(Ordering::Relaxed) {
                    let _read = lock.read().await.unwrap();
                    reads.fetch_add(1, Ordering::Relaxed);
                    sleep(ms(20)).await;
                }
            });
        }
    }
    let writer = process(&store);
    for _ in 0..10 {
        sleep(ms(130)).await;
        let started = Instant::now();
        let write = writer.write().await.unwrap();
        // A turn of half a second, the longest read, and some round trips.
        assert!(started.elapsed() <= ms(560), "{:?}", started.elapsed());
        sleep(ms(5)).await;
        write.release().await.unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    tasks.join_all().await;
    assert!(reads.load(Ordering::Relaxed) > 200, "{reads:?}");
}

/// Three processes write without a pause. A reader waits for the writers that stood at the gate before.
#[tokio::test(start_paused = true)]
async fn writers_do_not_starve_a_reader() {
    let store = MemoryBackend::new();
    let stop = Arc::new(AtomicBool::new(false));
    let writes = Arc::new(AtomicU32::new(0));
    let mut tasks = JoinSet::new();
    for lock in [process(&store), process(&store), process(&store)] {
        let (stop, writes) = (stop.clone(), writes.clone());
        tasks.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                let write = lock.write().await.unwrap();
                writes.fetch_add(1, Ordering::Relaxed);
                sleep(ms(20)).await;
                write.release().await.unwrap();
            }
        });
    }
    let reader = process(&store);
    let mut longest = Duration::ZERO;
    for _ in 0..20 {
        sleep(ms(70)).await;
        let started = Instant::now();
        let read = reader.read().await.unwrap();
        longest = longest.max(started.elapsed());
        sleep(ms(5)).await;
        read.release().await.unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    tasks.join_all().await;
    println!("longest wait of a reader: {longest:?}, {writes:?} writes");
    assert!(longest <= ms(300), "{longest:?}: one turn of the lock at the gate");
    assert!(writes.load(Ordering::Relaxed) > 20, "{writes:?}");
}

/// A waiting writer of the same process keeps new readers from joining at once.
#[tokio::test(start_paused = true)]
async fn a_writer_of_the_same_process_comes_before_later_readers() {
    let store = MemoryBackend::new();
    let lock = process(&store);
    let read = lock.read().await.unwrap();
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut tasks = JoinSet::new();
    for name in ["write", "read", "read"] {
        let (lock, order) = (lock.clone(), order.clone());
        tasks.spawn(async move {
            if name == "write" {
                let write = lock.write().await.unwrap();
                order.lock().unwrap().push(name);
                sleep(ms(10)).await;
                drop(write);
            } else {
                let _read = lock.read().await.unwrap();
                order.lock().unwrap().push(name);
            }
        });
        sleep(ms(1)).await;
    }
    sleep(ms(100)).await;
    assert_eq!(order.lock().unwrap().len(), 0);
    drop(read);
    tasks.join_all().await;
    assert_eq!(*order.lock().unwrap(), ["write", "read", "read"]);
}

/// A crash of a reader, and one of a writer.
#[tokio::test(start_paused = true)]
async fn after_a_crash_it_is_free_when_the_ttl_and_the_tolerance_are_over() {
    for writes in [false, true] {
        let line = Connection::new();
        let (lock, other) = (of(&line, SLOTS), process(&line.store));
        let (read, write) = if writes {
            (None, Some(lock.write().await.unwrap()))
        } else {
            (Some(lock.read().await.unwrap()), None)
        };
        sleep(ms(20)).await;
        line.cut(true);
        let started = Instant::now();
        let next = other.write().await.unwrap();
        let took = started.elapsed();
        assert!(ms(1600) <= took && took <= ms(2200), "{took:?}");
        // The old one has noticed that in time.
        assert!(
            read.is_none_or(|read| read.is_lost()) && write.is_none_or(|write| write.is_lost())
        );
        drop(next);
    }
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_is_refused_at_once() {
    let line = Connection::new();
    let lock = of(&line, SLOTS);
    let read = lock.read().await.unwrap();
    sleep(ms(10)).await;
    let before = line.counts.commands();
    for error in [lock.write().await.unwrap_err(), lock.try_write().await.unwrap_err()] {
        assert_eq!(error.code(), ErrorCode::InvalidArgument);
        assert!(error.message().contains("release the read first"), "{error}");
    }
    assert_eq!(line.counts.commands(), before);
    // Another task waits for this read.
    let other = lock.clone();
    let writing = tokio::spawn(async move { other.write().await.unwrap().fence() });
    sleep(ms(50)).await;
    assert!(!writing.is_finished());
    let fence = read.fence();
    drop(read);
    assert!(writing.await.unwrap() > fence);
    drop(lock.write().await.unwrap());
}

/// In another branch of the same task, and in the hands of another task.
#[tokio::test(start_paused = true)]
async fn a_read_belongs_to_the_task_that_asked_for_it() {
    let lock = process(&MemoryBackend::new());
    let reads_for = async |time| {
        let read = lock.read().await.unwrap();
        sleep(time).await;
        drop(read);
    };
    let writes = async |after| {
        sleep(after).await;
        lock.write().await.map(drop)
    };
    let ((), written) = tokio::join!(reads_for(ms(100)), writes(ms(50)));
    assert_eq!(written.unwrap_err().code(), ErrorCode::InvalidArgument);
    let in_a_task = tokio::spawn({
        let lock = lock.clone();
        async move { lock.write().await.map(drop) }
    });
    let ((), written) = tokio::join!(reads_for(ms(100)), in_a_task);
    written.unwrap().unwrap();

    let read = lock.read().await.unwrap();
    let reader = tokio::spawn(async move {
        sleep(ms(100)).await;
        drop(read);
    });
    assert_eq!(writes(ms(50)).await.unwrap_err().code(), ErrorCode::InvalidArgument);
    reader.await.unwrap();
    writes(ms(0)).await.unwrap();

    let (read, other) = (lock.read().await.unwrap(), lock.clone());
    let written = tokio::spawn(async move {
        let _read = read;
        other.write().await.map(drop)
    });
    assert_eq!(written.await.unwrap().unwrap_err().code(), ErrorCode::AcquisitionTimeout);
    writes(ms(0)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_ridden_out_and_a_token_ends_the_wait() {
    let store = MemoryBackend::new();
    let line = Connection::of(&store);
    let token = CancellationToken::new();
    let config = LockConfig::new(KEY).with_ride_out(MINUTE).with_cancellation(token.clone());
    let lock = RwLock::new(line.clone(), config, SLOTS);
    for writes in [false, true] {
        let reader = process(&store).read().await.unwrap();
        line.cut(true);
        let (waiting, lock) = (lock.clone(), lock.clone());
        let waiting = tokio::spawn(async move {
            if writes { waiting.write().await.map(drop) } else { waiting.read().await.map(drop) }
        });
        sleep(MINUTE / 2).await;
        line.cut(false);
        // The limit does not count the outage.
        sleep(ms(2_000)).await;
        drop(reader);
        waiting.await.unwrap().unwrap();
        drop(lock);
    }
    let held = process(&store).write().await.unwrap();
    let waiting = tokio::spawn(async move { lock.read().await.map(drop) });
    sleep(ms(500)).await;
    token.cancel();
    assert_eq!(waiting.await.unwrap().unwrap_err().code(), ErrorCode::Aborted);
    drop(held);
}

/// However late the gate or the slots become free, and however long the store takes to answer.
#[tokio::test(start_paused = true)]
async fn the_limit_counts_waiting_alone_and_errors_name_all_of_it() {
    let limit = ms(5_000);
    for (delay, gate_free_at) in [(0, 4_990), (20, 4_970), (50, 3_000), (50, 4_880), (50, 4_940)] {
        for (writes, reader_stays) in [(true, false), (true, true), (false, false), (false, true)] {
            let store = TestStore::new();
            let process =
                || RwLock::new(store.clone(), LockConfig::new(KEY).with_wait_up_to(limit), 1);
            let (gate, reads) = (format!("{KEY}:rw:gate"), format!("{KEY}:rw:0"));
            let gate = try_acquire(&store, gate).await.unwrap().acquired().unwrap();
            let mut read = try_acquire(&store, reads).await.unwrap().acquired();
            store.set_delay(ms(delay));
            let (lock, started) = (process(), Instant::now());
            let waiting = tokio::spawn(async move {
                if writes { lock.write().await.map(drop) } else { lock.read().await.map(drop) }
            });
            sleep(ms(gate_free_at)).await;
            if !reader_stays {
                drop(read.take());
            }
            gate.release().await.unwrap();
            let (result, took) = (waiting.await.unwrap(), started.elapsed());
            let case = format!("{delay}, {gate_free_at}, {writes}, {reader_stays}: {result:?}");
            assert!(took <= limit + 4 * ms(delay), "{took:?}, {case}");
            let Err(error) = result else {
                assert!(!reader_stays, "{case}");
                continue;
            };
            // The gate itself may have come too late.
            assert!(reader_stays || error.key().unwrap().expose().ends_with("gate"), "{case}");
            assert_eq!(error.code(), ErrorCode::AcquisitionTimeout, "{case}");
            assert!(error.message().contains(" is 5s (with_wait_up_to)"), "{case}");
            assert!(gate_free_at > 3_000 || error.holder().is_some(), "{case}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_plain_lock_of_the_key_is_another_lock() {
    let store = MemoryBackend::new();
    let lock = process(&store);
    let write = lock.write().await.unwrap();
    let plain = try_acquire(&store, KEY).await.unwrap().acquired().expect("beside a writer");
    drop(write.downgrade());
    drop(lock.write().await.expect("beside the plain lock"));
    drop(plain);
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_leaves_no_gap() {
    let store = MemoryBackend::new();
    let lines = [Connection::of(&store), Connection::of(&store), Connection::of(&store)];
    let [lock, rival, reader] = [0, 1, 2].map(|number: usize| of(&lines[number], SLOTS));
    let write = lock.write().await.unwrap();
    let fence = write.fence();
    let rival = tokio::spawn(async move { rival.write().await.unwrap().fence() });
    sleep(ms(30)).await;
    let read = write.downgrade();
    assert_eq!(read.fence(), fence);
    let before = lines[0].counts.acquires.load(Ordering::Relaxed);
    let joined = lock.read().await.unwrap();
    assert_eq!(lines[0].counts.acquires.load(Ordering::Relaxed), before, "it joins");
    sleep(ms(300)).await;
    assert!(!rival.is_finished() && !read.is_lost());
    assert!(timeout(ms(100), reader.read()).await.is_err(), "the rival has the gate");
    drop((read, joined));
    assert!(rival.await.unwrap() > fence);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_writer_leaves_the_gate_free() {
    let store = MemoryBackend::new();
    let (lock, other) = (process(&store), process(&store));
    let read = lock.read().await.unwrap();
    for waits in [1, 3, 20, 700] {
        assert!(timeout(ms(waits), other.write()).await.is_err());
        sleep(ms(20)).await;
        assert!(!is_locked(&store, "it:rw:gate").await, "after {waits} ms");
        // New readers of that process pass.
        drop(timeout(ms(100), other.read()).await.unwrap().unwrap());
        sleep(ms(20)).await;
        assert_eq!(locks(&store).await, [format!("it:rw:{}", read.slot())]);
    }
    drop(read);
    sleep(ms(20)).await;
    assert_eq!(locks(&store).await, [""; 0]);
}

/// The largest number of slots counts for every writer, also for one that began with a smaller one.
#[tokio::test(start_paused = true)]
async fn processes_with_different_numbers_are_safe() {
    let store = MemoryBackend::new();
    let (small, large) = (of(&Connection::of(&store), 1), of(&Connection::of(&store), 16));
    let first = small.write().await.unwrap();
    assert_eq!(first.fence().get(), 1, "a writer announces nothing");
    first.release().await.unwrap();
    for _ in 0..8 {
        let reads: Vec<_> = [large.read().await.unwrap()].into();
        assert!(small.try_write().await.unwrap().is_busy(), "slot {}", reads[0].slot());
        sleep(ms(20)).await;
        drop(reads);
        sleep(ms(20)).await;
    }
    let write = small.write().await.unwrap();
    assert_eq!(locks(&store).await.len(), 17);
    assert!(large.try_read().await.unwrap().is_busy());
    assert!(write.fence().get() > 160_000_000_000);
    // A smaller number later changes nothing.
    write.release().await.unwrap();
    drop(of(&Connection::of(&store), 2).read().await.unwrap());
    sleep(ms(20)).await;
    assert!(small.write().await.unwrap().fence().get() > 160_000_000_000);
    sleep(ms(20)).await;
    // An operator has raised the counter.
    let raised = Fence::new(1_000_000_000_000).unwrap();
    store.set_fence_counter(&"it:rw:gate".into_key().unwrap(), raised);
    let _write = small.write().await.unwrap();
    assert_eq!(locks(&store).await.len(), 65, "the gate and the most slots");
}

/// The state of a process.
#[expect(clippy::large_enum_variant, reason = "three of them live at a time")]
enum Use {
    Nothing,
    Read(ReadGuard<MemoryBackend>),
    Write(WriteGuard<MemoryBackend>),
}

/// Each order of five steps of three processes with different numbers of slots. A process that has nothing reads or writes;
/// one that reads or writes ends that, goes on as a reader, or dies and starts again.
#[tokio::test(start_paused = true)]
async fn no_order_lets_readers_and_writers_with_different_numbers_meet() {
    const STEPS: u32 = 5;
    let mut orders = 0;
    'orders: for order in 0..9_usize.pow(STEPS) {
        let store = MemoryBackend::new();
        let start = |slots| (RwLock::new(store.clone(), KEY, slots), Use::Nothing);
        let mut processes = [4, 1, 2].map(start);
        let mut of_the_dead = Vec::new();
        for step in 0..STEPS {
            let (number, what) = (order / 9_usize.pow(step) % 9 / 3, order / 9_usize.pow(step) % 3);
            let (lock, present) = &mut processes[number];
            *present = match (std::mem::replace(present, Use::Nothing), what) {
                (Use::Nothing, 0) => {
                    lock.try_read().await.unwrap().acquired().map_or(Use::Nothing, Use::Read)
                }
                (Use::Nothing, 1) => {
                    lock.try_write().await.unwrap().acquired().map_or(Use::Nothing, Use::Write)
                }
                (Use::Write(write), 0) => Use::Read(write.downgrade()),
                (Use::Write(write), 1) => {
                    assert!(write.release().await.unwrap().is_released());
                    Use::Nothing
                }
                (Use::Read(read), 0) => {
                    assert!(read.release().await.unwrap().is_released());
                    Use::Nothing
                }
                (held @ (Use::Read(_) | Use::Write(_)), 2) => {
                    of_the_dead.push(held);
                    *lock = start(1 + step).0;
                    Use::Nothing
                }
                // No such step.
                _ => continue 'orders,
            };
            // A dropped lock is given back in the background.
            sleep(ms(1)).await;
            let all = of_the_dead.iter().chain(processes.iter().map(|(_, present)| present));
            let (mut readers, mut writers) = (0, 0);
            for held in all {
                match held {
                    Use::Nothing => {}
                    Use::Read(read) => readers += u32::from(!read.valid_for().is_zero()),
                    Use::Write(write) => writers += u32::from(!write.valid_for().is_zero()),
                }
            }
            assert!(writers == 0 || (writers, readers) == (1, 0), "{order}: {readers}, {writers}");
        }
        orders += 1;
    }
    assert!(orders > 5_000, "{orders}");
}

#[tokio::test(start_paused = true)]
async fn more_processes_than_slots_wait_for_one() {
    let store = MemoryBackend::new();
    let lines: Vec<_> = (0..3).map(|_| Connection::of(&store)).collect();
    let first = of(&lines[0], 2).read().await.unwrap();
    let second = of(&lines[1], 2).read().await.unwrap();
    assert_ne!(first.slot(), second.slot());
    let third = of(&lines[2], 2);
    assert!(third.try_read().await.unwrap().is_busy());
    sleep(ms(20)).await;
    let waiting = tokio::spawn(async move { third.read().await.unwrap() });
    sleep(ms(200)).await;
    assert!(!waiting.is_finished());
    let slot = second.slot();
    drop(second);
    let read = timeout(ms(50), waiting).await.unwrap().unwrap();
    assert_eq!(read.slot(), slot);
    sleep(ms(50)).await;
    assert_eq!(locks(&store).await, ["it:rw:0", "it:rw:1"], "what else was granted is given back");
}

/// After the loss of the gate, a writer may have passed before the slot is granted.
#[tokio::test(start_paused = true)]
async fn nobody_begins_after_the_loss_of_the_gate() {
    for writes in [false, true] {
        let store = TestStore::new();
        let process = || RwLock::new(store.clone(), LockConfig::new(KEY).with_ttl(ms(900)), 1);
        let read = process().read().await.unwrap();
        sleep(ms(20)).await;
        let other = process();
        let waiting = tokio::spawn(async move {
            if writes { other.write().await.map(drop) } else { other.read().await.map(drop) }
        });
        sleep(ms(20)).await;
        assert!(store.lose_lock("it:rw:gate").unwrap());
        // Its next renewal notices.
        sleep(ms(400)).await;
        assert_eq!(waiting.is_finished(), writes, "a writer keeps readers out meanwhile");
        drop(read);
        let error = waiting.await.unwrap().unwrap_err();
        assert_eq!(error.code(), ErrorCode::ServiceUnavailable);
        sleep(ms(20)).await;
        assert_eq!(store.memory().stored_locks(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_loss_is_heard_and_the_next_read_begins_anew() {
    let line = Connection::new();
    let lock =
        RwLock::new(DynBackend::new(line.clone()), LockConfig::new(KEY).with_ttl(ms(300)), 1);
    let steal = async || {
        let page = line.store.inventory().unwrap().list_locks(ListRequest::new()).await.unwrap();
        for info in page.entries {
            let lock_id = info.lock_id;
            let request = syncguard_core::contract::ReleaseRequest::new(lock_id);
            assert!(line.store.release(request).await.unwrap().is_released());
        }
    };
    // Within the turn of the readers, and after it.
    for lasts in [20, 600] {
        let (read, beside) = (lock.read().await.unwrap(), lock.read().await.unwrap());
        sleep(ms(lasts)).await;
        steal().await;
        assert_eq!(read.lost().await, LossReason::NotHeld);
        let again = lock.read().await.unwrap();
        assert!(read.valid_for().is_zero() && !again.is_lost() && again.fence() > read.fence());
        assert!(!read.release().await.unwrap().is_released());
        assert!(!beside.release().await.unwrap().is_released());
        drop(again);
    }
    let write = lock.write().await.unwrap();
    steal().await;
    write.lost().await;
    assert!(write.is_lost() && write.valid_for().is_zero());
    assert!(!write.release().await.unwrap().is_released());
}

/// They can be spawned, and are small: the driver's part is boxed.
#[test]
fn futures_are_small() {
    let lock: &RwLock<_> = Box::leak(Box::new(process(&MemoryBackend::new())));
    let (read, write) = (lock.read(), lock.write());
    assert!(size_of_val(&read) <= 600 && size_of_val(&write) <= 600);
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .spawn(async { (read.await.is_ok(), write.await.is_ok()) });
}

/// A writer whose gate becomes free at the end of its limit.
#[tokio::test(start_paused = true)]
async fn a_late_gate_cuts_off_no_request_for_a_free_slot() {
    for free_at in (4_700..=4_945).step_by(5) {
        let store = TestStore::new();
        let process = || RwLock::new(store.clone(), KEY, 8);
        let (held, lock) = (process().write().await.unwrap(), process());
        store.set_delay(ms(50));
        let waiting = tokio::spawn(async move { lock.write().await.map(drop) });
        sleep(ms(free_at)).await;
        held.release().await.unwrap();
        let code = waiting.await.unwrap().err().map(|error| error.code());
        assert!(matches!(code, None | Some(ErrorCode::AcquisitionTimeout)), "{free_at}: {code:?}");
    }
}
