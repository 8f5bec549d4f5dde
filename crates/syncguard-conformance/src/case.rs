//! The catalogue of cases.

use std::fmt;

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

macro_rules! catalogue {
    ([] $($module:ident $group:ident { $($case:ident: $clause:literal,)+ })+) => {
        const CASES: &[Case] = &[
            $($(Case { name: stringify!($case), group: Group::$group, clause: $clause },)+)+
        ];

        /// The case with this name, ready to run.
        pub(crate) fn start<'b>(name: &str, context: &'b Context<'b>) -> Option<BoxedCase<'b>> {
            match name {
                $($(stringify!($case) => Some(Box::pin(crate::cases::$module::$case(context))),)+)+
                _ => None,
            }
        }
    };
}

crate::__for_each_case! { [catalogue] [] }
