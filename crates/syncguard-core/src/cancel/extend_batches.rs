//! Extends that go to the store together.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::token::interruptible;
use crate::contract::request::ExtendRequest;
use crate::contract::response::ExtendResult;
use crate::rt::{Mutex, RuntimeId, Spawner, yield_now};
use crate::value::{ErrorCode, LockError, Timestamp};

/// The extends of a backend that [go together](ExtendRequest::with_others): a backend keeps one value, and asks it first when
/// it extends a lock.
///
/// Guards renew their locks at common moments. The extends of one moment become a batch, which one request of the store
/// carries out. A batch waits for nothing but the tasks that are awake already. Each batch is a task of its own in the runtime
/// of its callers, so no caller that goes, and no slow batch, delays others.
#[derive(Clone, Default)]
pub struct ExtendBatches(Arc<Mutex<HashMap<Place, Vec<Due>>>>);

/// A runtime, and a group of locks that one request can extend.
type Place = (RuntimeId, usize);

/// An extend that waits for its batch.
struct Due {
    request: ExtendRequest,
    answer: oneshot::Sender<Answer>,
}

/// The new expiry; `None` if the extend has to go alone.
type Answer = Result<Option<Timestamp>, LockError>;

impl ExtendBatches {
    /// The most extends in one batch.
    pub const MOST: usize = 100;

    /// Extends a lock in a batch with others of the same group. `None` if this extend was not sent and has to go alone: the
    /// request wants that, or there is no other, or the batch has left it out.
    ///
    /// `extend_many` carries out a batch: between 2 and [`MOST`](Self::MOST) requests, each with an expected expiry, and no lock
    /// id twice. It answers in the order of the requests: the new expiry of a lock that it has extended, as
    /// [`extend`](crate::LockBackend::extend) would have done, or `None` for a lock that it has left as it was, for whatever
    /// reason. It must not wait for single locks. Its error becomes the answer to each of the extends.
    ///
    /// # Errors
    ///
    /// `Aborted` if the request's token fires; else the error of the batch, or `ServiceUnavailable` with an unknown outcome if
    /// the batch panicked.
    ///
    /// # Cancel safety
    ///
    /// An extend whose batch was sent takes effect even if the future is dropped.
    pub async fn extend<M, O>(
        &self,
        group: usize,
        request: &ExtendRequest,
        extend_many: M,
    ) -> Option<Result<ExtendResult, LockError>>
    where
        M: Fn(Vec<ExtendRequest>) -> O + Send + 'static,
        O: Future<Output = Result<Vec<Option<Timestamp>>, LockError>> + Send + 'static,
    {
        if !request.goes_with_others || request.expected_expiry.is_none() {
            return None;
        }
        let answered = self.join(group, request.clone(), extend_many)?;
        let result = match interruptible(request.cancellation.as_ref(), answered).await {
            Ok(Some(Ok(answer))) => answer,
            Ok(Some(Err(_))) => Err(LockError::new(
                ErrorCode::ServiceUnavailable,
                "the batch of this extend has ended without an answer",
            )
            .with_unknown_outcome()),
            Ok(None) => Err(LockError::aborted().with_unknown_outcome()),
            Err(error) => Err(error),
        };
        match result {
            Ok(extended) => Some(Ok(ExtendResult::Extended { expires_at: extended? })),
            Err(error) => Some(Err(error.with_lock_id(request.lock_id))),
        }
    }

    /// Joins the next batch of this runtime. The first extend of a batch starts the task that carries it out.
    fn join<M, O>(
        &self,
        group: usize,
        request: ExtendRequest,
        extend_many: M,
    ) -> Option<oneshot::Receiver<Answer>>
    where
        M: Fn(Vec<ExtendRequest>) -> O + Send + 'static,
        O: Future<Output = Result<Vec<Option<Timestamp>>, LockError>> + Send + 'static,
    {
        let spawner = Spawner::current();
        let runtime = spawner.candidates().next()?;
        let place = (runtime.id(), group);
        let (answer, answered) = oneshot::channel();
        let is_first = {
            let mut all = self.0.lock();
            let due = all.entry(place).or_default();
            due.push(Due { request, answer });
            due.len() == 1
        };
        if is_first {
            let mut gathering = Gathering { batches: self.clone(), place: Some(place) };
            runtime.spawn(async move {
                // The tasks of the other locks of this moment are awake, and add their extends.
                yield_now().await;
                let mut ids = HashSet::new();
                let is_wanted =
                    |due: &Due| !due.answer.is_closed() && ids.insert(due.request.lock_id);
                let (mut wanted, others): (Vec<_>, Vec<_>) =
                    gathering.end().into_iter().partition(is_wanted);
                for due in others {
                    let _ = due.answer.send(Ok(None));
                }
                while wanted.len() > Self::MOST {
                    let rest = wanted.split_off(Self::MOST);
                    spawner.spawn(carry_out(std::mem::replace(&mut wanted, rest), &extend_many));
                }
                carry_out(wanted, &extend_many).await;
            });
        }
        Some(answered)
    }
}

/// Sends a batch, and tells each caller its answer.
fn carry_out<M, O>(batch: Vec<Due>, extend_many: &M) -> impl Future<Output = ()> + use<M, O>
where
    M: Fn(Vec<ExtendRequest>) -> O,
    O: Future<Output = Result<Vec<Option<Timestamp>>, LockError>>,
{
    let (requests, answers): (Vec<_>, Vec<_>) =
        batch.into_iter().map(|due| (due.request, due.answer)).unzip();
    let sent = (requests.len() > 1).then(|| extend_many(requests));
    async move {
        let result = match sent {
            Some(sent) => sent.await,
            None => Ok(Vec::new()),
        };
        for (at, answer) in answers.into_iter().enumerate() {
            let one = result.as_ref().map(|all| all.get(at).copied().flatten());
            // The caller may have gone.
            let _ = answer.send(one.map_err(LockError::clone));
        }
    }
}

/// The task that will carry a batch out. If its runtime ends first, nobody waits for it any more.
struct Gathering {
    batches: ExtendBatches,
    /// `None` after the end.
    place: Option<Place>,
}

impl Gathering {
    fn end(&mut self) -> Vec<Due> {
        let due = self.place.take().and_then(|place| self.batches.0.lock().remove(&place));
        due.unwrap_or_default()
    }
}

impl Drop for Gathering {
    fn drop(&mut self) {
        drop(self.end());
    }
}

impl fmt::Debug for ExtendBatches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExtendBatches").finish_non_exhaustive()
    }
}
