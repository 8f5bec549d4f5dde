//! A leader: one process of many leads at a time, and when it stops or dies another process takes
//! over.
//!
//! ```console
//! $ docker run --rm -d -p 6379:6379 redis
//! $ cargo run -p syncguard --features redis,recipes --example leader -- redis://127.0.0.1
//! ```
//!
//! Run the second line in several terminals. After Ctrl-C (or SIGTERM) on the leader, another
//! process leads at once. After `kill -9`, another process leads when the TTL and a second of
//! tolerance have passed. The store is the first argument, or `SYNCGUARD_STORE`, or this process's
//! own memory.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;
use std::{env, io, process};

use syncguard::recipes::{Election, Term};
use syncguard::{CancellationToken, LockConfig};
use tokio::signal::ctrl_c;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::interval;

/// The time without a leader after a crash. The lock is renewed three times as often.
const TTL: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = env::args().nth(1).or_else(|| env::var("SYNCGUARD_STORE").ok());
    let backend = syncguard::connect(url.as_deref().unwrap_or("memory:")).await?;
    let me = process::id();

    let election = Election::new(backend, LockConfig::new("leader:reports").with_ttl(TTL));
    election.with_shutdown(shutdown()?).run(async |term| lead(me, term).await).await?;

    println!("{me} is done");
    Ok(())
}

/// The work of the leader. The fence goes along with every write, so that data which remembers the
/// highest fence refuses a former leader that has not noticed the end of its term.
///
/// When the term ends, this future is dropped at its `.await`, and `Farewell` prints a line. Work
/// that blocks a thread, or that was spawned, has to check `term.lost()` itself.
async fn lead(me: u32, term: Term) {
    println!("{me} leads under fence {}", term.fence());
    let _farewell = Farewell(me);
    let mut turns = interval(Duration::from_millis(500));
    loop {
        turns.tick().await;
        println!("{me} works under fence {}", term.fence());
    }
}

struct Farewell(u32);

impl Drop for Farewell {
    fn drop(&mut self) {
        println!("{} leads no more", self.0);
    }
}

/// A token that fires on Ctrl-C, and on the SIGTERM of systemd and Kubernetes.
fn shutdown() -> io::Result<CancellationToken> {
    let (token, mut terminate) = (CancellationToken::new(), signal(SignalKind::terminate())?);
    let fired = token.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = ctrl_c() => {}
            _ = terminate.recv() => {}
        }
        fired.cancel();
    });
    Ok(token)
}
