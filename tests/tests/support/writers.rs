//! Writers of one resource, with the fences that a lock hands out: new ones, the current one and old ones.

#![allow(clippy::print_stdout, reason = "figures for a human eye")]

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, ensure};
use syncguard::Fence;
use syncguard_history::Random;

/// The number of writers of a run.
pub(crate) const WRITERS: u64 = 400;
/// The number of connections over which they write at the same time.
pub(crate) const LANES: u64 = 8;

/// The answer to one attempt of a writer.
pub(crate) enum Outcome {
    Written,
    Stale,
    /// Somebody else came in between: the store asks to repeat the transaction.
    Conflict,
}

/// The fences of all lanes, and what became of the writers.
#[derive(Default)]
pub(crate) struct Writers {
    last: AtomicU64,
    pub(crate) written: AtomicU64,
    pub(crate) stale: AtomicU64,
    pub(crate) conflicts: AtomicU64,
}

impl Writers {
    /// The writers of one lane, one after the other. The future of `write` makes one attempt with a fence.
    pub(crate) async fn lane(
        &self,
        lane: u64,
        mut write: impl AsyncFnMut(Fence) -> Result<Outcome>,
    ) -> Result<()> {
        let mut random = Random::new(Random::seed() ^ lane);
        for _ in 0..WRITERS / LANES {
            let fence = Fence::new(self.fence(&mut random))?;
            let count = loop {
                match write(fence).await? {
                    Outcome::Written => break &self.written,
                    Outcome::Stale => break &self.stale,
                    Outcome::Conflict => self.conflicts.fetch_add(1, Ordering::Relaxed),
                };
            };
            count.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// The fence of the next writer.
    pub(crate) fn fence(&self, random: &mut Random) -> u64 {
        match random.below(100) {
            0..25 => self.last.fetch_add(1, Ordering::Relaxed) + 1,
            25..60 => self.last.load(Ordering::Relaxed).max(1),
            _ => self.last.load(Ordering::Relaxed).saturating_sub(1 + random.below(5)).max(1),
        }
    }

    /// Checks the trace of the data, which is the fences of all writes in their order, separated by commas, and the number
    /// that each write read and wrote with one added.
    pub(crate) fn check(&self, trace: &str, total: u64) -> Result<()> {
        let [written, stale] = [&self.written, &self.stale].map(|it| it.load(Ordering::Relaxed));
        let conflicts = self.conflicts.load(Ordering::Relaxed);
        let fences: Vec<u64> = trace.split(',').filter_map(|fence| fence.parse().ok()).collect();
        ensure!(fences.is_sorted(), "a stale write went in: {fences:?}");
        ensure!(fences.len() as u64 == written, "{} of {written} are in the data", fences.len());
        ensure!(total == written, "a write was lost: {total} of {written}");
        ensure!(
            written + stale == WRITERS / LANES * LANES && stale > 0 && written > 20,
            "{written} + {stale}"
        );
        println!("{written} written, {stale} stale, {conflicts} repeated");
        Ok(())
    }
}
