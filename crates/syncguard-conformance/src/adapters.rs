//! Harnesses that wrap the backend of another harness.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use syncguard_core::{DynBackend, Fence, Key, LockBackend};

use crate::{Harness, Late};

/// The harness in this field, with each of its backends wrapped.
macro_rules! wrapping {
    ($field:tt: $wrap:expr) => {
        const PAUSED_CLOCK: bool = H::PAUSED_CLOCK;

        async fn connect(&self) -> Self::Backend {
            let wrap = $wrap;
            wrap(self, self.$field.connect().await)
        }

        fn set_fence_counter(&self, key: &Key, last: Fence) -> impl Future<Output = ()> + Send {
            self.$field.set_fence_counter(key, last)
        }

        fn corrupt(&self, key: &Key) -> impl Future<Output = bool> + Send {
            self.$field.corrupt(key)
        }

        async fn connect_late(&self) -> Option<Late<Self::Backend>> {
            let wrap = $wrap;
            Some(self.$field.connect_late().await?.map(|backend| wrap(self, backend)))
        }

        fn pass(&self, time: Duration) -> impl Future<Output = ()> + Send {
            self.$field.pass(time)
        }
    };
}

/// Runs the suite over the backend in an [`Arc`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Shared<H>(pub H);

#[deny(clippy::missing_trait_methods)]
impl<H: Harness> Harness for Shared<H> {
    type Backend = Arc<H::Backend>;

    wrapping!(0: |_: &Self, backend| Arc::new(backend));
}

/// Runs the suite over the backend as a [`DynBackend`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Erased<H>(pub H);

#[deny(clippy::missing_trait_methods)]
impl<H: Harness> Harness for Erased<H> {
    type Backend = DynBackend<<H::Backend as LockBackend>::Fence>;

    wrapping!(0: |_: &Self, backend| DynBackend::new(backend));
}

/// Runs the suite over the backend in a decorator, which has to keep the whole contract.
#[derive(Clone, Copy)]
pub struct Decorated<H, W> {
    harness: H,
    wrap: W,
}

impl<H, W, D> Decorated<H, W>
where
    H: Harness,
    W: Fn(H::Backend) -> D + Send + Sync + 'static,
    D: LockBackend,
{
    /// Wraps each handle that the harness returns.
    #[must_use]
    pub const fn new(harness: H, wrap: W) -> Self {
        Self { harness, wrap }
    }
}

#[deny(clippy::missing_trait_methods)]
impl<H, W, D> Harness for Decorated<H, W>
where
    H: Harness,
    W: Fn(H::Backend) -> D + Send + Sync + 'static,
    D: LockBackend,
{
    type Backend = D;

    wrapping!(harness: |decorated: &Self, backend| (decorated.wrap)(backend));
}

impl<H: fmt::Debug, W> fmt::Debug for Decorated<H, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decorated").field("harness", &self.harness).finish_non_exhaustive()
    }
}
