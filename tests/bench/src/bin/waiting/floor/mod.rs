//! The floor of each store: a lock that changes hands over raw connections, with nothing around it.

mod postgres;
mod redis;

use std::time::Duration;

use anyhow::Result;
use syncguard_bench::clock;
use syncguard_bench::firestore::Raw;
use syncguard_bench::sorted::Sorted;

pub(crate) use postgres::measure as postgres;
pub(crate) use redis::measure as redis;

/// The work of a holder before it hands the lock on: as in the contests, because a processor that has just slept is
/// slower.
const WORK: Duration = Duration::from_millis(1);

/// Times in ms from the beginning of a release to the grant that follows.
pub(crate) struct Floor {
    /// Release, acquire: the next holder is in the same process.
    pub(crate) inside: Sorted,
    /// Release, signal, acquire: the next holder is in another process.
    pub(crate) between: Sorted,
}

/// One of two clients that take the lock by turns.
trait Party {
    async fn acquire(&self) -> Result<()>;
    async fn release_and_signal(&self) -> Result<()>;
    /// Without a signal, where the store can.
    async fn release(&self) -> Result<()> {
        self.release_and_signal().await
    }
}

trait Signals {
    /// True if each release signals.
    const ALWAYS: bool;

    async fn next(&mut self) -> Result<()>;
}

async fn measure<P: Party, S: Signals>(
    [one, other]: [P; 2],
    mut signals: S,
    time: Duration,
) -> Result<Floor> {
    let (mut inside, mut between) = (Vec::new(), Vec::new());
    let end = clock::now() + u64::try_from(time.as_nanos())?;
    one.acquire().await?;
    while clock::now() < end {
        clock::exactly(WORK).await?;
        let begun = clock::now();
        one.release().await?;
        one.acquire().await?;
        inside.push(clock::now() - begun);
        if S::ALWAYS {
            signals.next().await?;
        }

        clock::exactly(WORK).await?;
        let begun = clock::now();
        let next = async {
            signals.next().await?;
            other.acquire().await?;
            anyhow::Ok(clock::now())
        };
        let ((), granted) = tokio::try_join!(one.release_and_signal(), next)?;
        between.push(granted - begun);
        other.release().await?;
        if S::ALWAYS {
            signals.next().await?;
        }
        one.acquire().await?;
    }
    one.release().await?;
    Ok(Floor { inside: Sorted::new(inside), between: Sorted::new(between) })
}

/// Firestore's clients have no signals in their floor.
pub(crate) async fn firestore(raw: &Raw, time: Duration) -> Result<Floor> {
    const KEY: &str = "floor";
    let mut times = Vec::new();
    let end = clock::now() + u64::try_from(time.as_nanos())?;
    let mut lock = raw.take(KEY).await?;
    while clock::now() < end {
        clock::exactly(WORK).await?;
        let begun = clock::now();
        raw.give_back(KEY, lock).await?;
        lock = raw.take(KEY).await?;
        times.push(clock::now() - begun);
    }
    raw.give_back(KEY, lock).await?;
    Ok(Floor { inside: Sorted::new(times.clone()), between: Sorted::new(times) })
}
