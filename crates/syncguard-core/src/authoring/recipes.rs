//! For authors of recipes: tools built from plain locks, on any backend.
//!
//! | item | purpose |
//! |---|---|
//! | [`as_recipe`] | the settings of a recipe's locks |
//! | [`RideOut`] | failures of the store that a call rides out |
//! | [`FenceWindow`], [`try_acquire_in_window`], [`TriedInWindow`], [`Refusal`] | acquires that are granted only with certain fences, from a certain time on |
//! | [`release_as`], [`Parting`] | what a release leaves behind |
//! | [`RecipeQueue`], [`QueuePlace`], [`owes_a_pause`] | waiters that want several locks, or any of them |
//! | [`open_watch`], [`unanswered`] | how a waiter of a plain lock hears of releases, and its error without an answer |

pub use crate::client::queue::{QueuePlace, RecipeQueue, owes_a_pause};
pub use crate::contract::fence_window::{FenceWindow, Refusal};
pub use crate::locking::{
    Parting, RideOut, TriedInWindow, as_recipe, open_watch, release_as, try_acquire_in_window,
    unanswered,
};
