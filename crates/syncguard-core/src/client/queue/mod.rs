//! The queues of this process: the waiters of a key stand in one queue.
//!
//! The head of a queue contends in the store; the waiters behind it only cost memory. A [`Ticket`] is a place
//! in a queue, and its drop passes on the turn, in whatever way the waiter ends. A [`LocalHolder`] stands for
//! a guard of this process, and wakes the head when the lock is released.
//!
//! Safety does not depend on the queues. The store alone decides which caller gets a lock, and the head polls
//! the store even if the queue knows of a holder.

mod fairness;
#[cfg(test)]
mod fairness_tests;
mod local_holder;
mod queues;
mod recipe_queue;
#[cfg(test)]
mod shuttle_tests;
mod ticket;
mod wait_queue;

pub(crate) use self::fairness::Pause;
pub(crate) use self::local_holder::LocalHolder;
pub(crate) use self::queues::WaitQueues;
pub use self::recipe_queue::{QueuePlace, RecipeQueue, owes_a_pause};
pub(crate) use self::ticket::Ticket;
pub(crate) use self::wait_queue::{CHECK_INTERVAL, Turn};
