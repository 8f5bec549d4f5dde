//! The end of an acquire that nobody wants.

use syncguard_core::LockError;
use syncguard_core::authoring::cancel::{Settled, Unsettled};

use crate::inner::Inner;
use crate::release;

/// Releases the lock, and says whether it can still come.
pub(crate) async fn settle(inner: &Inner, acquire: &Unsettled) -> Result<Settled, LockError> {
    // Each sending was announced with its deadline, so nothing was sent.
    let Some(deadline) = acquire.deadline else { return Ok(Settled::Done) };
    // It was sent there and nowhere else, so nothing else need be asked.
    let section = inner.layout.section_of(&acquire.key)?;
    let (result, time) = release::attempt(inner, section, acquire.lock_id).await?;
    let is_certain = if result.is_released() {
        // It was sent once, so nothing else of it can come.
        !inner.connections.may_send_twice()
    } else {
        time.is_some_and(|time| time > deadline)
    };
    if is_certain {
        return Ok(Settled::Done);
    }
    Ok(Settled::NotYet(inner.clock(section.at()).passes_in(deadline)))
}
