//! Shows in a few seconds what a distributed lock does.
//!
//! `cargo run -p syncguard --example quickstart` needs no server. The URL of a store of yours can
//! be an argument, or in the variable `SYNCGUARD_STORE`:
//!
//! ```text
//! cargo run -p syncguard --features sqlite --example quickstart -- sqlite:quickstart.db
//! cargo run -p syncguard --features redis --example quickstart -- redis://127.0.0.1
//! cargo run -p syncguard --features postgres --example quickstart -- \
//!     'postgres://postgres:secret@127.0.0.1/postgres?setup_schema=true'
//! cargo run -p syncguard --features firestore --example quickstart -- \
//!     'firestore://demo?emulator=127.0.0.1:8080'
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use syncguard::LockBackend;
use syncguard::contract::ReleaseRequest;
use syncguard::{
    AcquisitionOptions, AutoExtend, DynBackend, Fence, LockConfig, LockError, Locker, acquire,
};
use tokio::time::sleep;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let backend = syncguard::connect(&backend_url()).await?;
    println!("SyncGuard quickstart on the backend `{}`", backend.capabilities().backend);
    // Each run has its own keys, because the store may be shared.
    let run = format!("quickstart:{}", std::process::id());

    workers(&backend, &format!("{run}:report")).await?;
    crash(&backend, &format!("{run}:crash")).await?;
    stale_writer(&backend, &format!("{run}:account")).await?;
    lost_lock(&backend, &format!("{run}:lost")).await?;
    Ok(())
}

/// Three workers want the same job; they get it one after the other.
async fn workers(backend: &DynBackend, key: &str) -> Result<(), LockError> {
    println!("\n1. Three workers, one job: one at a time, and every turn has a higher fence");
    let locker = Locker::new(backend.clone()).with_acquisition(patient());
    let worker = async |name: &str| {
        locker
            .lock(key, async |held| {
                println!("   {name} starts    fence {}", held.fence());
                sleep(Duration::from_millis(150)).await;
                println!("   {name} is done");
            })
            .await
    };
    let (a, b, c) = tokio::join!(worker("ann"), worker("bob"), worker("cat"));
    a.and(b).and(c)
}

/// A holder dies without releasing; its lock expires.
async fn crash(backend: &DynBackend, key: &str) -> Result<(), LockError> {
    println!("\n2. A holder dies; its lock ends by itself (TTL 500 ms, and 1 s of tolerance)");
    let config =
        LockConfig::new(key).with_ttl(Duration::from_millis(500)).with_acquisition(patient());
    let doomed = acquire(backend, config.clone()).await?;
    println!("   the first holder has fence {} and crashes", doomed.fence());
    std::mem::forget(doomed);
    let since = Instant::now();
    let next = acquire(backend, config).await?;
    println!(
        "   the next one has fence {} after {:.1} s of waiting",
        next.fence(),
        since.elapsed().as_secs_f32()
    );
    next.release().await.map(drop)
}

/// A holder pauses for too long and comes back; the fence keeps it from doing harm.
async fn stale_writer(backend: &DynBackend, key: &str) -> Result<(), LockError> {
    println!("\n3. A holder sleeps past its TTL and writes all the same: the fence stops it");
    let account = Account::default();
    let config =
        LockConfig::new(key).with_ttl(Duration::from_millis(100)).with_acquisition(patient());
    let sleeper = acquire(backend, config.clone()).await?;
    let successor = acquire(backend, config).await?;
    println!(
        "   write under fence {}: {}",
        successor.fence(),
        account.write(successor.fence(), "new")
    );
    println!("   write under fence {}: {}", sleeper.fence(), account.write(sleeper.fence(), "old"));
    successor.release().await.map(drop)
}

/// A lock is renewed while work goes on, and the work hears when the lock is lost.
async fn lost_lock(backend: &DynBackend, key: &str) -> Result<(), LockError> {
    println!(
        "\n4. Long work under a short TTL: renewed for as long as it lasts, and a loss is noticed"
    );
    let config = LockConfig::new(key)
        .with_ttl(Duration::from_millis(300))
        .with_auto_extend(AutoExtend::new());
    let guard = acquire(backend, config).await?;
    sleep(Duration::from_millis(900)).await;
    println!("   held for 900 ms; still ours: {}", !guard.is_lost());
    // An operator frees the lock by its id, behind the holder's back.
    let freed = backend.release(ReleaseRequest::new(guard.lock_id())).await?;
    println!("   freed by an operator: {}", freed.is_released());
    println!("   the work hears of it: {:?}", guard.lost().await);
    Ok(())
}

/// Data that remembers the highest fence it was written under.
#[derive(Default)]
struct Account(Mutex<BTreeMap<&'static str, (Fence, &'static str)>>);

impl Account {
    fn write(&self, fence: Fence, value: &'static str) -> &'static str {
        let mut rows = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (highest, stored) = rows.entry("balance").or_insert((Fence::ZERO, ""));
        if fence < *highest {
            return "rejected, a newer holder has written";
        }
        (*highest, *stored) = (fence, value);
        "accepted"
    }
}

fn patient() -> AcquisitionOptions {
    AcquisitionOptions::new()
        .with_max_retries(100)
        .with_retry_delay(Duration::from_millis(20))
        .with_timeout(Duration::from_secs(60))
}

/// The URL may contain a password: do not print it.
fn backend_url() -> String {
    let argument = std::env::args().nth(1);
    argument
        .or_else(|| std::env::var("SYNCGUARD_STORE").ok())
        .unwrap_or_else(|| "memory:".to_owned())
}
