//! Acquires with a fence window in the form that the cases use.

use std::time::Duration;

use syncguard_core::authoring::recipes::{FenceWindow, Refusal};
use syncguard_core::contract::{AcquireRequest, AcquireResult, ReleaseRequest};
use syncguard_core::{Contention, Fence, Key, LockBackend as _, LockError, LockId, ReleaseResult};

use crate::client::{Client, Granted};
use crate::context::LONG;
use crate::outcome::{Checked, Stop, Unexpected, answer};

/// The first fence of the cases' windows. No plain acquire of a case gets that far.
const FIRST: u64 = 1_780_000_000_000;

/// A handle on a store that keeps windows.
#[derive(Clone)]
pub(crate) struct InWindow(pub(crate) Client);

#[derive(Debug)]
pub(crate) enum Answer {
    Granted(Granted),
    Busy(Contention),
    Taken(Fence),
    TooEarly(Duration),
}

impl InWindow {
    /// The case does not apply if the backend does not support windows.
    pub(crate) fn of(client: Client) -> Result<Self, Stop> {
        if client.backend().capabilities().supports_fence_windows {
            Ok(Self(client))
        } else {
            Err(Stop::NotApplicable("the backend does not support fence windows"))
        }
    }

    pub(crate) async fn send(&self, request: AcquireRequest) -> Checked<Answer> {
        let lock_id = request.lock_id;
        Ok(match answer("acquire", self.0.backend().acquire(request).await)? {
            AcquireResult::Acquired(acquired) => {
                Answer::Granted(self.0.granted(lock_id, &acquired)?)
            }
            AcquireResult::Busy(contention) => Answer::Busy(contention),
            AcquireResult::Refused(Refusal::Taken { counter }) => Answer::Taken(counter),
            AcquireResult::Refused(Refusal::TooEarly { wait }) => Answer::TooEarly(wait),
        })
    }

    /// One attempt under a fresh lock id.
    pub(crate) async fn ask(&self, key: &Key, window: FenceWindow) -> Checked<Answer> {
        self.send(request(key, window)?).await
    }

    /// Releases a lock with the counter of this key.
    pub(crate) async fn release(
        &self,
        key: &Key,
        lock_id: LockId,
        counter: Fence,
    ) -> Checked<ReleaseResult> {
        let request = ReleaseRequest::new(lock_id).with_counter_at_least(key.clone(), counter)?;
        answer("release", self.0.backend().release(request).await)
    }

    /// Releases a lock that must be live, with the counter of its key.
    pub(crate) async fn counted(&self, key: &Key, lock_id: LockId, counter: Fence) -> Checked<()> {
        match self.release(key, lock_id, counter).await? {
            ReleaseResult::Released => Ok(()),
            other => Err(Unexpected::new(format!("release of a live lock answered {other:?}"))),
        }
    }
}

/// Asks for a lock in a window, where only one answer is right, and returns what that says.
macro_rules! expecting {
    ($($(#[$about:meta])* $name:ident: $answer:ident($said:ty), $when:literal;)+) => {
        impl InWindow {
            $($(#[$about])*
            pub(crate) async fn $name(&self, key: &Key, window: FenceWindow) -> Checked<$said> {
                match self.ask(key, window).await? {
                    Answer::$answer(said) => Ok(said),
                    other => Err(other.unexpected($when)),
                }
            })+
        }
    };
}

expecting! {
    /// The key must be free and the window open.
    granted: Granted(Granted), "in an open window";
    /// The window must be used up: the answer is the counter.
    taken: Taken(Fence), "in a used-up window";
    /// The window's time must not have come: the answer is how long that takes.
    too_early: TooEarly(Duration), "before the window's time";
    /// The key must be held, and the window must not be used up.
    held: Busy(Contention), "of a held key";
}

impl Answer {
    pub(crate) fn unexpected(&self, when: &str) -> Unexpected {
        Unexpected::new(format!("an acquire {when} got {self:?}"))
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
