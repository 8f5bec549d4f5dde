//! Taking a lock.

use fred::types::Value;
use syncguard_core::{
    AcquireRequest, AcquireResult, Key, LockError, LockId, TIME_TOLERANCE, Ttl, cancel,
};

use crate::backend::RedisBackend;
use crate::client::Call;
use crate::{keys, release, scripts, wire};

pub(crate) async fn acquire(
    backend: &RedisBackend,
    request: AcquireRequest,
) -> Result<AcquireResult, LockError> {
    let owned = backend.clone();
    cancel::finish_acquire(backend, request, |request, _| {
        Attempt { backend: owned, key: request.key, lock_id: request.lock_id, ttl: request.ttl }
            .run()
    })
    .await
}

/// The TTL, and how long the records live: both counted from the moment the script runs.
pub(crate) fn lifetimes(ttl: Ttl) -> [Value; 2] {
    // Redis would drop a lock at its expiry, and contenders would get in within the tolerance.
    let life = ttl.as_duration() + TIME_TOLERANCE;
    let life = u64::try_from(life.as_millis()).unwrap_or(u64::MAX);
    [ttl.as_millis(), life].map(|millis| millis.to_string().into())
}

/// What may outlive the caller.
struct Attempt {
    backend: RedisBackend,
    key: Key,
    lock_id: LockId,
    ttl: Ttl,
}

impl Attempt {
    async fn run(self) -> Result<AcquireResult, LockError> {
        let result = self.once().await;
        result.map_err(|error| error.with_key(&self.key).with_lock_id(self.lock_id))
    }

    async fn once(&self) -> Result<AcquireResult, LockError> {
        let connections = self.backend.connections();
        let Some(wait) = self.backend.wait_replicas() else {
            return self.granted(connections.run(|| self.call()).await?);
        };
        let (answer, replicated) = connections.run_replicated(|| self.call(), wait).await?;
        let result = self.granted(answer)?;
        match replicated {
            Err(shortfall) if result.is_acquired() => Err(self.give_back(shortfall).await),
            _ => Ok(result),
        }
    }

    fn call(&self) -> Result<Call<3, 4>, LockError> {
        let layout = self.backend.layout();
        let names = layout.names(&self.key)?;
        let index = layout.index_name(self.lock_id)?;
        let [ttl, life] = lifetimes(self.ttl);
        Ok(Call {
            script: &scripts::ACQUIRE,
            keys: [names.lock.into(), names.fence.into(), index.into()],
            arguments: [
                self.lock_id.expose().into(),
                ttl,
                life,
                keys::json_inside(self.key.expose()).into(),
            ],
        })
    }

    fn granted(&self, answer: Value) -> Result<AcquireResult, LockError> {
        let result = wire::acquired(answer, self.lock_id)?;
        if let AcquireResult::Acquired(acquired) = &result {
            acquired.fence.warn_near_limit("redis", &self.key);
        }
        Ok(result)
    }

    /// Releases a lock that too few replicas have. What fails here is tried again in the background.
    async fn give_back(&self, shortfall: LockError) -> LockError {
        match release::attempt(&self.backend, self.lock_id).await {
            Ok(_) => shortfall,
            Err(_) => shortfall.with_unknown_outcome(),
        }
    }
}
