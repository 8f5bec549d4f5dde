//! The harness and its backend without their types, so that the cases need not be compiled for each of them.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use syncguard_core::contract::FenceToken as _;
use syncguard_core::{DynBackend, Fence, Key, LockBackend};

use crate::unfenced::with_fences;
use crate::{Harness, Late};

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The object-safe form of [`Harness`].
pub(crate) trait DynHarness: Send + Sync {
    fn has_paused_clock(&self) -> bool;
    fn fences(&self) -> bool;
    fn connect(&self) -> Boxed<'_, DynBackend>;
    /// A handle and a clone of it. A clone of a [`DynBackend`] does not clone the backend inside.
    fn connect_and_clone(&self) -> Boxed<'_, [DynBackend; 2]>;
    fn set_fence_counter<'a>(&'a self, key: &'a Key, last: Fence) -> Boxed<'a, ()>;
    fn corrupt<'a>(&'a self, key: &'a Key) -> Boxed<'a, bool>;
    fn connect_late(&self) -> Boxed<'_, Option<Late<DynBackend>>>;
    fn pass(&self, time: Duration) -> Boxed<'_, ()>;
}

impl<H: Harness> DynHarness for H {
    fn has_paused_clock(&self) -> bool {
        H::PAUSED_CLOCK
    }

    fn fences(&self) -> bool {
        <H::Backend as LockBackend>::Fence::SUPPORTED
    }

    fn connect(&self) -> Boxed<'_, DynBackend> {
        Box::pin(async { with_fences(Harness::connect(self).await) })
    }

    fn connect_and_clone(&self) -> Boxed<'_, [DynBackend; 2]> {
        Box::pin(async {
            let original = Harness::connect(self).await;
            [original.clone(), original].map(with_fences)
        })
    }

    fn set_fence_counter<'a>(&'a self, key: &'a Key, last: Fence) -> Boxed<'a, ()> {
        Box::pin(Harness::set_fence_counter(self, key, last))
    }

    fn corrupt<'a>(&'a self, key: &'a Key) -> Boxed<'a, bool> {
        Box::pin(Harness::corrupt(self, key))
    }

    fn connect_late(&self) -> Boxed<'_, Option<Late<DynBackend>>> {
        Box::pin(async { Some(Harness::connect_late(self).await?.map(with_fences)) })
    }

    fn pass(&self, time: Duration) -> Boxed<'_, ()> {
        Box::pin(Harness::pass(self, time))
    }
}
