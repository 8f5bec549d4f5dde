//! A backend that does not fence runs the suite too.

use syncguard_conformance::{Erased, Group, Harness, Suite, Verdict};
use syncguard_core::contract::{
    AcquireRequest, AcquireResult, Acquired, BackendCapabilities, LookupRequest, NoFence,
    TimeAuthority,
};
use syncguard_core::{Fence, Key, LockBackend, LockError, LockInfo, forward};
use syncguard_memory::MemoryBackend;

use crate::memory::few;

#[tokio::test(start_paused = true)]
async fn only_the_cases_about_fences_do_not_apply() {
    let report = Suite::new().run(Unfenced::default()).await;
    assert!(report.is_success(), "{report}");
    for (case, result) in &report.results {
        // The memory backend cannot hold a corrupt record, and its requests cannot be late. Its inventory is left out
        // as well, because it is full of fences.
        let about_fences = matches!(case.group, Group::Fencing | Group::Windows);
        let applies = !about_fences
            && !matches!(case.group, Group::Late | Group::Inventory)
            && !case.name.starts_with("a_corrupt_record");
        assert_eq!(*result == Ok(Verdict::Passed), applies, "{}", case.name);
    }
    let erased = few().run(Erased(Unfenced::default())).await;
    assert!(erased.is_success(), "{erased}");
}

/// The memory backend without fences.
#[derive(Clone, Debug, Default)]
struct Unfenced(MemoryBackend);

impl Harness for Unfenced {
    type Backend = Self;

    const PAUSED_CLOCK: bool = true;

    async fn connect(&self) -> Self {
        self.clone()
    }

    async fn set_fence_counter(&self, _: &Key, _: Fence) {
        unreachable!("the backend does not fence");
    }
}

impl LockBackend for Unfenced {
    type Fence = NoFence;

    async fn acquire(&self, request: AcquireRequest) -> Result<AcquireResult<NoFence>, LockError> {
        Ok(match self.0.acquire(request).await? {
            AcquireResult::Busy(held) => AcquireResult::Busy(held),
            AcquireResult::Refused(refusal) => AcquireResult::Refused(refusal),
            AcquireResult::Acquired(Acquired { lock_id, expires_at, .. }) => {
                AcquireResult::Acquired(Acquired::new(lock_id, expires_at, NoFence))
            }
        })
    }

    async fn lookup(&self, request: LookupRequest) -> Result<Option<LockInfo<NoFence>>, LockError> {
        Ok(self.0.lookup(request).await?.map(|info| {
            let LockInfo { key, lock_id, acquired_at, expires_at, .. } = info;
            LockInfo::new(key, lock_id, acquired_at, expires_at, NoFence)
        }))
    }

    forward!(0: release, extend, is_locked, watch, client_state);

    fn capabilities(&self) -> BackendCapabilities {
        BackendCapabilities::new::<NoFence>("unfenced", TimeAuthority::Server)
    }
}
