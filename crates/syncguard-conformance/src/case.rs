//! The catalogue.

use std::fmt;

use crate::Harness;
use crate::context::Context;
use crate::outcome::BoxedCase;

/// What a case is about. A group builds on those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Group {
    /// Taking, extending and giving back.
    Lifecycle,
    /// Fencing tokens and their counters. Does not apply to a backend that does not fence.
    Fencing,
    /// Trying for a lock that someone else holds.
    Contention,
    /// The end of a lock by its TTL.
    Expiration,
    /// Who may release and extend what.
    Ownership,
    /// Looking without touching.
    Lookup,
    /// Saying which key a lock is of, rightly or wrongly.
    Hints,
    /// Extends that apply to a known expiry alone.
    Expectation,
    /// Fired tokens and dropped futures.
    Cancellation,
    /// Which text names which lock.
    Keys,
    /// What goes wrong, and what is said and not said about it.
    Errors,
    /// Races.
    Concurrency,
    /// What is left of locks that are over.
    Cleanup,
    /// Hearing of releases. Does not apply to a backend that cannot tell.
    Signals,
    /// Looking over all locks. Does not apply to a backend that cannot.
    Inventory,
    /// Requests that arrive late. Does not apply where the harness cannot hold requests back.
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
    /// What it is about.
    pub group: Group,
    /// The rule, in one sentence.
    pub clause: &'static str,
}

/// All cases, group by group: what others build on comes first.
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
        pub(crate) fn start<'b, H: Harness>(
            name: &str,
            context: &'b Context<'b, H>,
        ) -> Option<BoxedCase<'b>> {
            match name {
                $($(stringify!($case) => Some(Box::pin(crate::cases::$module::$case(context))),)+)+
                _ => None,
            }
        }
    };
}

crate::__for_each_case! { [catalogue] [] }
