//! The memory backend as a server, which carries out each request at the time of its arrival.

use std::time::Duration;

use syncguard_core::contract::{
    AcquireRequest, AcquireResult, ExtendRequest, FenceWindow, IsLockedRequest, LookupRequest,
    ReleaseRequest,
};
use syncguard_core::inventory::{Inventory, ListRequest};
use syncguard_core::{
    ExtendResult, Fence, Key, LockBackend, LockError, NotHeld, ReleaseResult, Timestamp,
};
use syncguard_memory::MemoryBackend;
use tokio::runtime::{Builder, Runtime};

use super::Atomic;
use crate::protocol::{Record, Refused, Reply, Request, Window};

/// The backend, in a runtime whose clock shows the simulation's time.
pub(crate) struct Memory {
    runtime: Runtime,
    backend: MemoryBackend,
    /// The simulation's time at which the backend's clock was last moved.
    at: u64,
    /// How far the backend's clock is ahead of the simulation's.
    ahead: u64,
}

impl Memory {
    /// The time, in milliseconds.
    pub(crate) fn new(now: u64) -> Self {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime");
        let (backend, shown) = runtime.block_on(async {
            let backend = MemoryBackend::new();
            let probe = AcquireRequest::new("probe", Duration::from_millis(1)).expect("a request");
            let id = probe.lock_id;
            let granted = backend.acquire(probe).await.expect("an answer").acquired();
            let shown = granted.expect("a lock").expires_at.as_millis() - 1;
            let _ = backend.release(ReleaseRequest::new(id)).await.expect("an answer");
            (backend, shown)
        });
        Self { runtime, backend, at: now, ahead: shown - now }
    }

    fn ours(&self, time: Timestamp) -> u64 {
        time.as_millis() - self.ahead
    }

    fn theirs(&self, window: Window) -> Result<FenceWindow, LockError> {
        let Window { at_least, below, not_before } = window;
        let window = FenceWindow::new(Fence::new(at_least)?, Fence::new(below)?)?;
        Ok(window.with_not_before(Timestamp::from_millis(not_before + self.ahead)?))
    }

    async fn answer(&self, now: u64, request: &Request) -> Result<(Reply, Option<Key>), LockError> {
        let backend = &self.backend;
        let not_held = |why| Reply::NotHeld { is_expired: why == NotHeld::Expired, now };
        let reply = match request {
            Request::Acquire { key, id, ttl, window, .. } => {
                let ttl = Duration::from_millis(*ttl);
                let mut request = AcquireRequest::new(key.clone(), ttl)?.with_lock_id(*id);
                request.fence_window = window.map(|window| self.theirs(window)).transpose()?;
                match backend.acquire(request).await? {
                    AcquireResult::Acquired(lock) => Reply::Granted {
                        fence: lock.fence.get(),
                        expires_at: self.ours(lock.expires_at),
                        is_fresh: false,
                    },
                    AcquireResult::Locked(contention) => {
                        let within = contention.free_within.unwrap_or_default().as_millis();
                        let within = u64::try_from(within).unwrap_or(u64::MAX);
                        Reply::Held { expires_at: now + within - 1000, now }
                    }
                    AcquireResult::Refused(refusal) => {
                        Reply::Refused { why: Refused::of(refusal), now }
                    }
                }
            }
            Request::Release { id, .. } => {
                let key = backend.lookup(LookupRequest::by_lock_id(*id)).await?;
                let key = key.map(|info| info.expose().key.clone());
                match backend.release(ReleaseRequest::new(*id)).await? {
                    ReleaseResult::NotHeld(why) => not_held(why),
                    _ => return Ok((Reply::Released, key)),
                }
            }
            Request::Extend { id, ttl, expected, .. } => {
                let mut request = ExtendRequest::new(*id, Duration::from_millis(*ttl))?;
                if let Some(expected) = expected {
                    let expected = Timestamp::from_millis(expected + self.ahead)?;
                    request = request.with_expected_expiry(expected);
                }
                match backend.extend(request).await? {
                    ExtendResult::Extended { expires_at } => {
                        Reply::Extended { expires_at: self.ours(expires_at) }
                    }
                    ExtendResult::Mismatch { expires_at } => {
                        Reply::Mismatch { expires_at: self.ours(expires_at) }
                    }
                    ExtendResult::NotHeld(why) => not_held(why),
                    _ => return Err(LockError::internal("an answer that is not known")),
                }
            }
            Request::IsLocked { key } => {
                Reply::Is(backend.is_locked(IsLockedRequest::new(key.clone())?).await?)
            }
            Request::Counter { key } => {
                let counter = inventory(backend)?.fence_counter(key).await?;
                Reply::Counter(counter.map(Fence::get))
            }
            Request::Raise { key, at_least } => {
                let at_least = Fence::new(*at_least)?;
                let counter = inventory(backend)?.raise_counter(key, at_least).await?;
                Reply::Counter(Some(counter.get()))
            }
            Request::ByKey { key } => self.found(LookupRequest::by_key(key.clone())?).await?,
            Request::ById { id } => self.found(LookupRequest::by_lock_id(*id)).await?,
            _ => Reply::Time { now },
        };
        Ok((reply, None))
    }

    async fn found(&self, request: LookupRequest) -> Result<Reply, LockError> {
        let found = self.backend.lookup(request).await?;
        Ok(Reply::Found(found.map(|info| {
            let raw = info.expose();
            Record {
                key: raw.key.clone(),
                id: raw.lock_id,
                fence: raw.info.fence.get(),
                acquired_at: self.ours(raw.info.acquired_at),
                expires_at: self.ours(raw.info.expires_at),
            }
        })))
    }

    fn moves_to(&mut self, now: u64) {
        if now > self.at {
            let passed = Duration::from_millis(now - self.at);
            self.runtime.block_on(async { tokio::time::advance(passed).await });
            self.at = now;
        }
    }
}

fn inventory(backend: &MemoryBackend) -> Result<Inventory, LockError> {
    backend.inventory().ok_or_else(|| LockError::internal("an inventory"))
}

impl Atomic for Memory {
    fn carry_out(&mut self, now: u64, request: &Request) -> (Reply, Option<Key>) {
        self.moves_to(now);
        if request.deadline().is_some_and(|deadline| now > deadline) {
            return (Reply::Late { now }, None);
        }
        self.runtime.block_on(self.answer(now, request)).expect("the embedded backend answers")
    }

    fn live(&mut self, now: u64) -> u64 {
        self.moves_to(now);
        let request = ListRequest::new();
        let page = self
            .runtime
            .block_on(self.backend.inventory().expect("an inventory").list_locks(request))
            .expect("a page");
        page.entries.len() as u64
    }
}
