//! `syncguard release --force`: takes a lock away from its holder.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::time::Duration;

use clap::Args;
use serde_json::json;
use syncguard::contract::{AcquireRequest, AcquireResult, ReleaseRequest};
use syncguard::diagnostics::get_by_key;
use syncguard::{DynBackend, Fence, Key, LockBackend as _, LockInfo, ReleaseResult};

use crate::exit::{Failure, Status};
use crate::holder;
use crate::output::{Output, print, print_json};
use crate::store::Store;
use crate::time::{human, until};

/// Takes a lock away from its holder
///
/// The holder may still be at work, so the fence of the key is raised as well: a service that
/// checks fences refuses the old holder's writes from then on. A service that does not check them
/// cannot know.
#[derive(Args)]
pub(crate) struct Options {
    /// The key of the lock
    key: String,
    /// Confirms that the holder may lose its lock; there is no other release from a shell
    #[arg(long, required = true)]
    force: bool,
    /// Does not ask for confirmation on a terminal
    #[arg(long, short)]
    yes: bool,
    /// Prints one line of JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(
    options: &Options,
    store: &Store,
    output: Output,
) -> Result<Status, Failure> {
    let key = Key::new(options.key.as_str())?;
    let backend = store.connect().await?;
    let Some(info) = get_by_key(&backend, key.clone()).await? else {
        return report(options, None, None);
    };
    if !options.yes && io::stdin().is_terminal() && !is_confirmed(&info).await? {
        output.note("nothing was changed");
        return Ok(Status::SUCCESS);
    }
    let lock_id = info.clone().expose().lock_id;
    let released = backend.release(ReleaseRequest::new(lock_id)).await?;
    if !matches!(released, ReleaseResult::Released) {
        return explain_refusal(options, &backend, key, &info).await;
    }
    let fence = raise_fence(&backend, key).await?;
    report(options, Some(&info), fence)
}

/// Explains why the store released nothing: the lock has ended meanwhile, or the store does not
/// find the lock by its id.
async fn explain_refusal(
    options: &Options,
    backend: &DynBackend,
    key: Key,
    before: &LockInfo,
) -> Result<Status, Failure> {
    let Some(now) = get_by_key(backend, key).await? else {
        return report(options, None, None);
    };
    let left = human(until(now.expires_at));
    let (status, message) = if now.lock_id_hash() == before.lock_id_hash() {
        let says = format!(
            "the lock is still held, and cannot be taken away: the store has its record, but does not find it by \
             its lock id, so a part of its data is missing. Nobody can renew it either: it ends by itself in {left}"
        );
        (Status::INTERNAL, says)
    } else {
        let says = "the lock has ended by itself meanwhile, and another process holds it now; nothing was taken \
                    away. Run this again if that process is meant too";
        (Status::CONFLICT, says.to_owned())
    };
    if options.json {
        report(options, None, None)?;
    }
    Err(Failure::new(status, message))
}

/// Raises the fence with an acquire of its own. `None` if another process has the lock by now,
/// since its acquire has raised the fence.
async fn raise_fence(backend: &DynBackend, key: Key) -> Result<Option<Fence>, Failure> {
    let request = AcquireRequest::new(key, Duration::from_secs(5))?;
    match backend.acquire(request).await? {
        AcquireResult::Acquired(acquired) => {
            let _ = backend.release(ReleaseRequest::new(acquired.lock_id)).await?;
            Ok(Some(acquired.fence))
        }
        AcquireResult::Locked(_) => Ok(None),
    }
}

fn report(
    options: &Options,
    taken_from: Option<&LockInfo>,
    fence: Option<Fence>,
) -> Result<Status, Failure> {
    let printed = match (taken_from, fence) {
        _ if options.json => print_json(&json!({
            "key": options.key,
            "released": taken_from.is_some(),
            "lockIdHash": taken_from.map(|info| info.lock_id_hash().to_string()),
            "oldFence": taken_from.map(|info| info.fence.to_string()),
            "newFence": fence.map(|fence| fence.to_string()),
        })),
        (None, _) => print("the lock was free"),
        (Some(info), Some(fence)) => print(format!(
            "released; fences up to {} are refused now, the counter is at {fence}",
            info.fence
        )),
        (Some(_), None) => {
            print("released; another process has the lock already, with a higher fence")
        }
    };
    printed.map_err(Failure::output)?;
    Ok(Status::SUCCESS)
}

/// Asks on the terminal. A thread of its own reads the answer, so that the runtime is not blocked.
async fn is_confirmed(info: &LockInfo) -> Result<bool, Failure> {
    let question = format!(
        "{} has held the lock for {}. Take it away? [y/N] ",
        holder::name(info),
        human(crate::time::since(info.acquired_at))
    );
    let asked = tokio::task::spawn_blocking(move || {
        let mut terminal = io::stderr().lock();
        write!(terminal, "{question}")?;
        terminal.flush()?;
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer)?;
        Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
    });
    asked
        .await
        .unwrap_or_else(|error| Err(io::Error::other(error)))
        .map_err(|error: io::Error| Failure::system("the terminal cannot be read", &error))
}
