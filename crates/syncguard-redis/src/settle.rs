//! Settling an acquire that its caller has given up.

use syncguard_core::LockError;
use syncguard_core::authoring::cancel::{Settled, Unsettled};

use crate::inner::Inner;
use crate::release;

/// Releases the lock, and says whether the acquire may still be carried out.
pub(crate) async fn settle(inner: &Inner, acquire: &Unsettled) -> Result<Settled, LockError> {
    // Each sending sets its deadline first, so nothing was sent.
    let Some(deadline) = acquire.void_after else { return Ok(Settled::Done) };
    // The acquire was sent to this section alone.
    let section = inner.layout.section_of(&acquire.key)?;
    let (result, time) =
        release::attempt(inner, section, acquire.lock_id, Some(&acquire.key), None).await?;
    let is_certain = if result.is_released() {
        // If the acquire was sent once, it cannot be carried out a second time.
        !inner.connections.may_send_twice()
    } else {
        time.is_some_and(|time| time > deadline)
    };
    if is_certain {
        return Ok(Settled::Done);
    }
    Ok(Settled::NotYet(inner.clock(section.target()).passes_in(deadline)))
}
