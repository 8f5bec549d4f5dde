//! `syncguard run --shared` and `--exclusive`: readers and writers of a key.

use std::env;

use clap::Args;
use syncguard::DynBackend;
use syncguard::diagnostics::get_by_key;
use syncguard::recipes::RwLock;

use super::acquire::{Guard, conflict, timed_out};
use super::request::LockRequest;
use crate::exit::Failure;
use crate::store::{Store, without_password};

/// The variable that tells a command in which way it uses the lock.
pub(super) const VARIABLE: &str = "SYNCGUARD_SHARING";

#[derive(Args)]
pub(super) struct SharingOptions {
    /// Runs beside other commands with --shared on this key, and never beside one with --exclusive
    ///
    /// Up to N processes run at a time with --shared, 1 to 64. If callers give different numbers,
    /// the store remembers the largest one, and --exclusive waits for that many. The lock of a key
    /// without these options is another lock. The command finds `shared` or `exclusive` in
    /// `SYNCGUARD_SHARING`.
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "16")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=64), group = "sharing")]
    #[arg(conflicts_with_all = ["permits", "max_hold", "at_least"])]
    #[cfg_attr(feature = "ticks", arg(conflicts_with = "tick"))]
    shared: Option<u32>,
    /// Runs alone: waits for all commands with --shared on this key, and keeps new ones out
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "16")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=64), group = "sharing")]
    #[arg(conflicts_with_all = ["permits", "max_hold", "at_least"])]
    #[cfg_attr(feature = "ticks", arg(conflicts_with = "tick"))]
    exclusive: Option<u32>,
}

impl SharingOptions {
    pub(super) fn sharing(&self) -> Option<Sharing> {
        let of = |writes: bool| move |slots| Sharing { writes, slots };
        self.shared.map(of(false)).or(self.exclusive.map(of(true)))
    }
}

/// A read or a write under a read/write lock.
#[derive(Clone, Copy)]
pub(super) struct Sharing {
    writes: bool,
    slots: u32,
}

impl Sharing {
    pub(super) const fn name(self) -> &'static str {
        if self.writes { "exclusive" } else { "shared" }
    }

    /// # Errors
    ///
    /// Fails if the store fails, and if other processes keep the lock.
    pub(super) async fn acquire(
        self,
        backend: &DynBackend,
        request: &LockRequest,
    ) -> Result<Guard, Failure> {
        let lock = RwLock::new(backend.clone(), request.config.key()?.clone(), self.slots)?
            .with_ttl(request.config.ttl())
            .with_wait_up_to(request.acquisition.timeout);
        let late = |error| timed_out(error, request);
        let guard = match (self.writes, request.waits()) {
            (false, true) => Some(Guard::Read(lock.read().await.map_err(late)?)),
            (true, true) => Some(Guard::Write(lock.write().await.map_err(late)?)),
            (false, false) => lock.try_read().await?.map(Guard::Read),
            (true, false) => lock.try_write().await?.map(Guard::Write),
        };
        guard.ok_or_else(|| conflict("other processes hold the lock; --wait DURATION waits for it"))
    }

    /// # Errors
    ///
    /// Fails if this program was started under the same read/write lock, for which it would wait.
    pub(super) async fn refuse_nested(
        backend: &DynBackend,
        request: &LockRequest,
        key: &str,
        store: &Store,
    ) -> Result<(), Failure> {
        let is_set = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
        let is_named = is_set("SYNCGUARD_KEY", key)
            && is_set("SYNCGUARD_STORE", &without_password(store.expose()));
        let Ok(sharing) = env::var(VARIABLE) else { return Ok(()) };
        if !is_named {
            return Ok(());
        }
        let part = env::var("SYNCGUARD_SLOT").ok().filter(|_| sharing == "shared");
        let part = part.as_deref().unwrap_or("gate");
        let held =
            get_by_key(backend, format!("{}:rw:{part}", request.config.key()?.expose())).await?;
        // A process that outlives its `syncguard run` has the variables as well, and may take the lock.
        let fence = env::var("SYNCGUARD_FENCE").unwrap_or_default();
        if held.is_some_and(|info| sharing == "shared" || info.fence.to_string() == fence) {
            return Err(Failure::usage(format!(
                "this command already runs with --{sharing} under this lock, and would wait for itself. Take the lock in one \
                 place, with --exclusive if any part of the work writes"
            )));
        }
        Ok(())
    }
}
