//! Forwarding for decorators.

/// Forwards methods of [`LockBackend`](crate::LockBackend) to a field: the methods that a decorator does not change.
///
/// The field comes first, by name or by number, then the methods. With `*` for the field, a pointer such as `Arc` forwards to
/// what it points to. Each method does the same as the inner backend's, with the same errors and the same cancel safety.
///
/// Three methods of the trait have defaults, and a decorator that forgets them hears no signals, finds no hazards and lists no
/// locks.
/// The lint `#[deny(clippy::missing_trait_methods)]` finds that.
///
/// ```
/// use syncguard_core::contract::{AcquireRequest, AcquireResult};
/// use syncguard_core::{ErrorCode, LockBackend, LockError, forward};
///
/// /// Takes no locks outside of office hours.
/// #[derive(Clone)]
/// struct OfficeHours<B> {
///     inner: B,
/// }
/// # fn is_open() -> bool { true }
///
/// #[deny(clippy::missing_trait_methods)]
/// impl<B: LockBackend> LockBackend for OfficeHours<B> {
///     type Fence = B::Fence;
///
///     async fn acquire(&self, request: AcquireRequest) -> Result<AcquireResult<B::Fence>, LockError> {
///         if !is_open() {
///             return Err(LockError::new(ErrorCode::ServiceUnavailable, "the office is closed"));
///         }
///         self.inner.acquire(request).await
///     }
///
///     forward!(inner: release, extend, is_locked, lookup);
///     forward!(inner: watch, health, inventory, capabilities, client_state);
/// }
/// ```
#[macro_export]
macro_rules! forward {
    ($field:tt: $($method:ident),+ $(,)?) => {
        $($crate::forward!(@ $method $field);)+
    };
    (@inner $self:ident *) => {
        &**$self
    };
    (@inner $self:ident $field:tt) => {
        &$self.$field
    };
    (@ acquire $field:tt) => {
        async fn acquire(
            &self,
            request: $crate::contract::AcquireRequest,
        ) -> ::core::result::Result<$crate::contract::AcquireResult<Self::Fence>, $crate::LockError> {
            $crate::LockBackend::acquire($crate::forward!(@inner self $field), request).await
        }
    };
    (@ release $field:tt) => {
        async fn release(
            &self,
            request: $crate::contract::ReleaseRequest,
        ) -> ::core::result::Result<$crate::ReleaseResult, $crate::LockError> {
            $crate::LockBackend::release($crate::forward!(@inner self $field), request).await
        }
    };
    (@ extend $field:tt) => {
        async fn extend(
            &self,
            request: $crate::contract::ExtendRequest,
        ) -> ::core::result::Result<$crate::ExtendResult, $crate::LockError> {
            $crate::LockBackend::extend($crate::forward!(@inner self $field), request).await
        }
    };
    (@ is_locked $field:tt) => {
        async fn is_locked(
            &self,
            request: $crate::contract::IsLockedRequest,
        ) -> ::core::result::Result<bool, $crate::LockError> {
            $crate::LockBackend::is_locked($crate::forward!(@inner self $field), request).await
        }
    };
    (@ lookup $field:tt) => {
        async fn lookup(
            &self,
            request: $crate::contract::LookupRequest,
        ) -> ::core::result::Result<
            ::core::option::Option<$crate::LockInfo<Self::Fence>>,
            $crate::LockError,
        > {
            $crate::LockBackend::lookup($crate::forward!(@inner self $field), request).await
        }
    };
    (@ watch $field:tt) => {
        async fn watch(
            &self,
            request: $crate::contract::WatchRequest,
        ) -> ::core::option::Option<$crate::contract::KeyWatch> {
            $crate::LockBackend::watch($crate::forward!(@inner self $field), request).await
        }
    };
    (@ health $field:tt) => {
        async fn health(&self) -> $crate::contract::Health {
            $crate::LockBackend::health($crate::forward!(@inner self $field)).await
        }
    };
    (@ inventory $field:tt) => {
        fn inventory(&self) -> ::core::option::Option<$crate::inventory::Inventory<Self::Fence>> {
            $crate::LockBackend::inventory($crate::forward!(@inner self $field))
        }
    };
    (@ capabilities $field:tt) => {
        fn capabilities(&self) -> $crate::contract::BackendCapabilities {
            $crate::LockBackend::capabilities($crate::forward!(@inner self $field))
        }
    };
    (@ client_state $field:tt) => {
        fn client_state(&self) -> &$crate::shared::ClientState {
            $crate::LockBackend::client_state($crate::forward!(@inner self $field))
        }
    };
    (@ $other:ident $field:tt) => {
        ::core::compile_error!(::core::concat!(
            "`",
            ::core::stringify!($other),
            "` is no method of `LockBackend`"
        ));
    };
}
