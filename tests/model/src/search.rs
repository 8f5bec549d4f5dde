//! Visiting all worlds where they are too many to be kept: depth first, with nothing of a visited world but its
//! fingerprint.
//!
//! Stateright keeps of each world whence it was reached, to tell the shortest way to it, and all worlds that
//! are still to be visited. This keeps eight bytes a world and the way to where it is; the way that it tells is
//! not the shortest.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use stateright::{Model as _, Property};

use crate::checker::{Breach, Report};
use crate::protocol::{Action, Protocol};
use crate::rules::Rules;
use crate::seen::Seen;
use crate::world::{Store, World};

/// How much a search may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How many threads.
    pub threads: usize,
    /// How long.
    pub time: Duration,
    /// How many bytes for fingerprints.
    pub bytes: usize,
}

/// Visits all worlds, or those up to the first that breaks something. Says from time to time how many it was.
pub fn search<S: Store>(rules: Rules, limits: Limits, tell: impl Fn(usize) + Sync) -> Report {
    let started = Instant::now();
    let model = Protocol::<S> { rules, store: PhantomData };
    let shared = Shared::new(model);
    for world in model.init_states() {
        if shared.seen.insert(&world) {
            shared.worlds.fetch_add(1, Ordering::Relaxed);
            shared.spare().0.push(Spare { world, way: Vec::new() });
        }
    }
    std::thread::scope(|scope| {
        for _ in 0..limits.threads {
            scope.spawn(|| shared.work(limits.threads));
        }
        scope.spawn(|| shared.watch(limits, started, &tell));
    });
    let happened = shared.happened.load(Ordering::Relaxed);
    let broken = shared.broken.into_inner().unwrap_or_else(PoisonError::into_inner);
    Report {
        worlds: shared.worlds.load(Ordering::Relaxed),
        steps: shared.steps.load(Ordering::Relaxed),
        depth: shared.depth.load(Ordering::Relaxed),
        time: started.elapsed(),
        is_complete: !shared.is_stopped.load(Ordering::Relaxed),
        broken: broken.into_iter().collect(),
        missing: model
            .properties()
            .iter()
            .enumerate()
            .filter(|(_, property)| !property.expectation.discovery_is_failure())
            .filter(|(index, _)| happened & 1 << index == 0)
            .map(|(_, property)| property.name)
            .collect(),
    }
}

/// A world to go on from, for whoever has nothing to do.
struct Spare<S: Store> {
    world: World<S>,
    way: Vec<Action>,
}

/// A world that one thread is to go on from.
struct Next<S: Store> {
    world: World<S>,
    /// The length of the way to it, and its last step.
    depth: usize,
    last: Option<Action>,
}

struct Shared<S: Store> {
    model: Protocol<S>,
    seen: Seen,
    /// With how many threads wait for one.
    spare: Mutex<(Vec<Spare<S>>, usize)>,
    has_spare: Condvar,
    waiting: AtomicUsize,
    is_over: AtomicBool,
    /// Over before its end.
    is_stopped: AtomicBool,
    worlds: AtomicUsize,
    steps: AtomicUsize,
    depth: AtomicUsize,
    /// A bit for each property that is to hold somewhere.
    happened: AtomicU64,
    broken: Mutex<Option<Breach>>,
}

impl<S: Store> Shared<S> {
    fn new(model: Protocol<S>) -> Self {
        Self {
            model,
            seen: Seen::new(),
            spare: Mutex::new((Vec::new(), 0)),
            has_spare: Condvar::new(),
            waiting: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
            is_stopped: AtomicBool::new(false),
            worlds: AtomicUsize::new(0),
            steps: AtomicUsize::new(0),
            depth: AtomicUsize::new(0),
            happened: AtomicU64::new(0),
            broken: Mutex::new(None),
        }
    }

    fn spare(&self) -> MutexGuard<'_, (Vec<Spare<S>>, usize)> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends what takes too long, or too much.
    fn watch(&self, limits: Limits, started: Instant, tell: &impl Fn(usize)) {
        let mut told = Instant::now();
        while !self.is_over.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(20));
            if told.elapsed() > Duration::from_secs(30) {
                told = Instant::now();
                tell(self.worlds.load(Ordering::Relaxed));
            }
            if started.elapsed() > limits.time || self.seen.bytes() > limits.bytes {
                self.is_stopped.store(true, Ordering::Relaxed);
                self.end();
            }
        }
    }

    fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        let _spare = self.spare();
        self.has_spare.notify_all();
    }

    /// Waits for a world to go on from. None: all were visited.
    fn take(&self, threads: usize) -> Option<Spare<S>> {
        let mut spare = self.spare();
        loop {
            if self.is_over.load(Ordering::Relaxed) {
                return None;
            }
            if let Some(next) = spare.0.pop() {
                return Some(next);
            }
            spare.1 += 1;
            if spare.1 == threads {
                self.is_over.store(true, Ordering::Relaxed);
                self.has_spare.notify_all();
                return None;
            }
            self.waiting.store(spare.1, Ordering::Relaxed);
            spare = self.has_spare.wait(spare).unwrap_or_else(PoisonError::into_inner);
            spare.1 -= 1;
            self.waiting.store(spare.1, Ordering::Relaxed);
        }
    }

    fn work(&self, threads: usize) {
        let properties = self.model.properties();
        let (mut stack, mut actions) = (Vec::new(), Vec::new());
        while let Some(Spare { world, mut way }) = self.take(threads) {
            stack.clear();
            stack.push(Next { world, depth: way.len(), last: way.last().copied() });
            while let Some(Next { world, depth, last }) = stack.pop() {
                if self.is_over.load(Ordering::Relaxed) {
                    return;
                }
                way.truncate(depth.saturating_sub(1));
                way.extend(last);
                if !self.judge(&properties, &world, &way) {
                    return self.end();
                }
                self.model.actions(&world, &mut actions);
                let (mut steps, mut found) = (0, 0);
                for action in actions.drain(..) {
                    let Some(world) = self.model.next_state(&world, action) else { continue };
                    steps += 1;
                    if self.seen.insert(&world) {
                        found += 1;
                        stack.push(Next { world, depth: depth + 1, last: Some(action) });
                    }
                }
                self.steps.fetch_add(steps, Ordering::Relaxed);
                self.worlds.fetch_add(found, Ordering::Relaxed);
                if found > 0 && depth + 1 > self.depth.load(Ordering::Relaxed) {
                    self.depth.fetch_max(depth + 1, Ordering::Relaxed);
                }
                if self.waiting.load(Ordering::Relaxed) > 0 && stack.len() > 1 {
                    self.give(&mut stack, &way);
                }
            }
        }
    }

    /// Whether nothing is broken.
    fn judge(
        &self,
        properties: &[Property<Protocol<S>>],
        world: &World<S>,
        way: &[Action],
    ) -> bool {
        for (index, property) in properties.iter().enumerate() {
            let is_so = (property.condition)(&self.model, world);
            if property.expectation.discovery_is_failure() {
                if !is_so {
                    let (rule, steps) = (property.name, way.len());
                    let breach = Breach { rule, steps, way: format!("{way:#?}\n{world:#?}") };
                    *self.broken.lock().unwrap_or_else(PoisonError::into_inner) = Some(breach);
                    self.is_stopped.store(true, Ordering::Relaxed);
                    return false;
                }
            } else if is_so && self.happened.load(Ordering::Relaxed) & 1 << index == 0 {
                self.happened.fetch_or(1 << index, Ordering::Relaxed);
            }
        }
        true
    }

    /// Gives away the world that is nearest to the beginning: most is to be expected behind it.
    fn give(&self, stack: &mut Vec<Next<S>>, way: &[Action]) {
        let Next { world, depth, last } = stack.remove(0);
        let mut way = way[..depth.saturating_sub(1)].to_vec();
        way.extend(last);
        self.spare().0.push(Spare { world, way });
        self.has_spare.notify_one();
    }
}
