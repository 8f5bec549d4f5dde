//! Ending an acquire whose caller has gone and whose outcome is unknown.

use std::sync::Arc;

use syncguard_core::LockError;
use syncguard_core::authoring::cancel::{Caller, Settled, Unsettled};

use crate::inner::Inner;
use crate::release;

/// Releases the lock. One release is enough: an acquire that this backend has begun has ended before the
/// writer thread takes the release, and an acquire that has not begun by then never will.
pub(crate) async fn settle(inner: &Arc<Inner>, acquire: &Unsettled) -> Result<Settled, LockError> {
    release::release(Arc::clone(inner), acquire.release(), Caller::new(None)).await?;
    Ok(Settled::Done)
}
