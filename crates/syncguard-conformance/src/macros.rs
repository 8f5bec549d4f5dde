//! The macro that turns the suite into tests.

/// Makes one `#[test]` of every case, in a module with this name.
///
/// ```
/// # mod example {
/// # use syncguard_conformance::Harness;
/// # struct MyHarness;
/// # impl MyHarness { async fn start() -> Self { Self } }
/// # impl Harness for MyHarness {
/// #     type Backend = syncguard_memory::MemoryBackend;
/// #     async fn connect(&self) -> Self::Backend { Self::Backend::new() }
/// #     async fn set_fence_counter(&self, _: &syncguard_core::Key, _: syncguard_core::Fence) {}
/// # }
/// use syncguard_conformance::{Erased, conformance_tests};
///
/// conformance_tests!(my_backend, MyHarness::start().await);
/// conformance_tests!(my_backend_as_dyn, Erased(MyHarness::start().await));
/// conformance_tests!(#[ignore = "needs a server"] my_backend_on_a_server, MyHarness::start().await);
/// # }
/// ```
///
/// The tests are called `my_backend::fencing::fences_grow_with_every_acquisition` and so on, so a part of the name
/// selects a group or a case. Attributes before the name are put on every test. The expression is evaluated for each
/// test anew, inside the test's tokio runtime. It sees everything that the surrounding module sees, and may `.await`.
/// The tests need no imports, not even tokio.
#[macro_export]
macro_rules! conformance_tests {
    ($(#[$attribute:meta])* $name:ident, $harness:expr $(,)?) => {
        mod $name {
            #[allow(clippy::unused_async, reason = "the expression may await")]
            async fn harness() -> impl $crate::Harness {
                #[allow(unused_imports, reason = "the expression may need nothing from here")]
                use super::*;
                $harness
            }

            $crate::__for_each_case! { [$crate::__tests] [$(#[$attribute])*] }
        }
    };
}

/// The tests of every case.
#[doc(hidden)]
#[macro_export]
macro_rules! __tests {
    ($attributes:tt $($module:ident $group:ident { $($case:ident: $clause:literal,)+ })+) => {
        $(mod $module {
            $($crate::__test! { $attributes $case })+
        })+
    };
}

/// One test.
#[doc(hidden)]
#[macro_export]
macro_rules! __test {
    ([$($attribute:tt)*] $case:ident) => {
        #[test]
        $($attribute)*
        fn $case() -> ::std::result::Result<(), $crate::Failure> {
            $crate::__run_blocking(::std::stringify!($case), super::harness)
        }
    };
}
