//! The catalogue of cases.

use std::any::Any;
use std::fmt;

use syncguard_core::Fence;
use syncguard_core::contract::{FenceToken, NoFence};

use crate::context::Context;
use crate::outcome::BoxedCase;

/// The subject of a case. A group builds on the groups before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Group {
    /// Acquire, extend and release.
    Lifecycle,
    /// Fencing tokens and their counters. Does not apply to a backend that does not fence.
    Fencing,
    /// Attempts to take a lock that another caller holds.
    Contention,
    /// The end of a lock by its TTL.
    Expiration,
    /// Which lock id releases and extends which lock.
    Ownership,
    /// Lookups, which change nothing.
    Lookup,
    /// Key hints, right and wrong.
    Hints,
    /// Extends that apply only to an expected expiry.
    Expectation,
    /// Fired tokens and dropped futures.
    Cancellation,
    /// The normalisation of keys.
    Keys,
    /// Errors, and secrets that errors and logs must not contain.
    Errors,
    /// Races.
    Concurrency,
    /// Removal of records of locks that are over.
    Cleanup,
    /// Signals of releases. Does not apply to a backend without signals.
    Signals,
    /// Listing all locks. Does not apply to a backend without an inventory.
    Inventory,
    /// Acquires with a fence window. Does not apply to a backend that does not support windows.
    Windows,
    /// Requests that arrive late. Does not apply if the harness cannot hold requests back.
    Late,
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// One rule of the contract and the test that proves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Case {
    /// The case's name, unique in the suite and the name of its generated test.
    pub name: &'static str,
    /// The group of the case.
    pub group: Group,
    /// The rule, in one sentence.
    pub clause: &'static str,
}

/// The cases, group by group. Later groups build on earlier ones.
#[must_use]
pub fn cases() -> &'static [Case] {
    CASES
}

/// Makes the case with a name ready to run.
type Start<F> = for<'b> fn(&str, &'b Context<'b, F>) -> Option<BoxedCase<'b>>;

/// The function that starts a case for backends with this kind of fence.
pub(crate) fn starter<F: FenceToken>() -> Option<Start<F>> {
    starters().into_iter().find_map(|start| start.downcast_ref().copied())
}

/// The two instances of [`start`]. The compiler makes them once, in this crate: the crates that run the suite would
/// compile all cases again, which takes longer than to run them.
#[inline(never)]
fn starters() -> [Box<dyn Any>; 2] {
    [Box::new(start::<Fence> as Start<Fence>), Box::new(start::<NoFence> as Start<NoFence>)]
}

macro_rules! catalogue {
    ([] $($module:ident $group:ident { $($case:ident: $clause:literal,)+ })+) => {
        const CASES: &[Case] = &[
            $($(Case { name: stringify!($case), group: Group::$group, clause: $clause },)+)+
        ];

        /// The case with this name, ready to run.
        fn start<'b, F: FenceToken>(
            name: &str,
            context: &'b Context<'b, F>,
        ) -> Option<BoxedCase<'b>> {
            match name {
                $($(stringify!($case) => Some(Box::pin(crate::cases::$module::$case(context))),)+)+
                _ => None,
            }
        }
    };
}

crate::__for_each_case! { [catalogue] [] }
