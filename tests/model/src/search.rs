//! A search for models with too many worlds to keep: depth first, and only a fingerprint of each visited world.
//!
//! Stateright keeps the predecessor of each world, to report the shortest path to it, and all worlds that are still
//! to be visited. This search keeps eight bytes for each world and the current path; the path that it reports is not
//! the shortest.

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

/// The limits of a search.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The number of threads.
    pub threads: usize,
    /// The time limit.
    pub time: Duration,
    /// The bytes for fingerprints.
    pub bytes: usize,
}

/// Visits all worlds, or the worlds up to the first that breaks a rule. Prints their number from time to time.
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

/// A world to continue from, for idle threads.
struct Spare<S: Store> {
    world: World<S>,
    way: Vec<Action>,
}

/// A world that a thread will continue from.
struct Next<S: Store> {
    world: World<S>,
    /// The length of the path to it, and its last step.
    depth: usize,
    last: Option<Action>,
}

struct Shared<S: Store> {
    model: Protocol<S>,
    seen: Seen,
    /// The waiting worlds, and the number of threads that wait for one.
    spare: Mutex<(Vec<Spare<S>>, usize)>,
    has_spare: Condvar,
    waiting: AtomicUsize,
    is_over: AtomicBool,
    /// Stopped early.
    is_stopped: AtomicBool,
    worlds: AtomicUsize,
    steps: AtomicUsize,
    depth: AtomicUsize,
    /// A bit for each property that must hold in some world.
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

    /// Ends a search that takes too much time or memory.
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

    /// Waits for a world to continue from; `None` if all were visited.
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

    /// Returns true if no rule is broken.
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

    /// Gives away the world nearest to the beginning, which has the most worlds behind it.
    fn give(&self, stack: &mut Vec<Next<S>>, way: &[Action]) {
        let Next { world, depth, last } = stack.remove(0);
        let mut way = way[..depth.saturating_sub(1)].to_vec();
        way.extend(last);
        self.spare().0.push(Spare { world, way });
        self.has_spare.notify_one();
    }
}
