//! Acquires with a fence window in the form that the cases use.

use std::time::Duration;

use syncguard_core::contract::{AcquireRequest, AcquireResult, FenceToken, FenceWindow, Refusal};
use syncguard_core::{Contention, Fence, Key, LockBackend as _, LockError};

use crate::client::{Client, Granted};
use crate::context::LONG;
use crate::outcome::{Stop, Unexpected};

/// The first fence of the cases' windows. No plain acquire of a case gets that far.
const FIRST: u64 = 1_780_000_000_000;

/// A handle on a store that keeps windows.
#[derive(Clone)]
pub(crate) struct InWindow<F: FenceToken>(pub(crate) Client<F>);

#[derive(Debug)]
pub(crate) enum Answer {
    Granted(Granted),
    Held(Contention),
    Taken(Fence),
    TooEarly(Duration),
}

impl<F: FenceToken> InWindow<F> {
    /// The case does not apply if the backend does not support windows.
    pub(crate) fn of(client: Client<F>) -> Result<Self, Stop> {
        if client.backend().capabilities().supports_fence_windows {
            Ok(Self(client))
        } else {
            Err(Stop::NotApplicable("the backend does not support fence windows"))
        }
    }

    pub(crate) async fn send(&self, request: AcquireRequest) -> Result<Answer, Unexpected> {
        let lock_id = request.lock_id;
        let answer = self.0.backend().acquire(request).await;
        Ok(match answer.map_err(|error| Unexpected::error("acquire", &error))? {
            AcquireResult::Acquired(acquired) => Answer::Granted(Granted::of(lock_id, &acquired)?),
            AcquireResult::Locked(contention) => Answer::Held(contention),
            AcquireResult::Refused(Refusal::Taken { counter }) => Answer::Taken(counter),
            AcquireResult::Refused(Refusal::TooEarly { wait }) => Answer::TooEarly(wait),
        })
    }

    /// One attempt under a fresh lock id.
    pub(crate) async fn ask(&self, key: &Key, window: FenceWindow) -> Result<Answer, Unexpected> {
        self.send(request(key, window)?).await
    }

    /// Acquires a key that must be free, in a window that must be open.
    pub(crate) async fn granted(
        &self,
        key: &Key,
        window: FenceWindow,
    ) -> Result<Granted, Unexpected> {
        match self.ask(key, window).await? {
            Answer::Granted(granted) => Ok(granted),
            other => Err(Unexpected::new(format!("an acquire in an open window got {other:?}"))),
        }
    }

    /// Tries for a window that must be used up, and returns the counter.
    pub(crate) async fn taken(&self, key: &Key, window: FenceWindow) -> Result<Fence, Unexpected> {
        match self.ask(key, window).await? {
            Answer::Taken(counter) => Ok(counter),
            other => Err(Unexpected::new(format!("an acquire in a used-up window got {other:?}"))),
        }
    }

    /// Tries for a window whose time must not have come, and returns how long that takes.
    pub(crate) async fn too_early(
        &self,
        key: &Key,
        window: FenceWindow,
    ) -> Result<Duration, Unexpected> {
        match self.ask(key, window).await? {
            Answer::TooEarly(wait) => Ok(wait),
            other => {
                let message = format!("an acquire before the window's time got {other:?}");
                Err(Unexpected::new(message))
            }
        }
    }

    /// Tries for a key that must be held, in a window that must not be used up.
    pub(crate) async fn held(
        &self,
        key: &Key,
        window: FenceWindow,
    ) -> Result<Contention, Unexpected> {
        match self.ask(key, window).await? {
            Answer::Held(contention) => Ok(contention),
            other => Err(Unexpected::new(format!("an acquire of a held key got {other:?}"))),
        }
    }
}

/// A request under a fresh lock id.
pub(crate) fn request(key: &Key, window: FenceWindow) -> Result<AcquireRequest, LockError> {
    Ok(AcquireRequest::new(key, LONG)?.with_fence_window(window))
}

/// A window with this number of fences.
pub(crate) fn window_of(fences: u64) -> Result<FenceWindow, LockError> {
    FenceWindow::new(nth(1)?, nth(fences)?)
}

/// A fence of a window, counted from one.
pub(crate) fn nth(number: u64) -> Result<Fence, LockError> {
    Fence::new(FIRST + number - 1)
}
