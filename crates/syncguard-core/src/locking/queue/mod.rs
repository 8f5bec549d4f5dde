//! The queues in which the waiters of this process stand, one for each key.
//!
//! The head of a queue contends in the store; the waiters behind it cost nothing but their place. A [`Ticket`] is
//! a place in a queue: dropped, in whatever way its waiter ends, it passes the turn on. A [`LocalHolder`] stands for
//! a guard of this process: when its lock is given back, it wakes the head.
//!
//! Nothing here is about safety. The store alone decides who gets a lock, and the head of a queue asks it from time
//! to time whatever the queue says.

mod fairness;
#[cfg(test)]
mod flaws;
mod local_holder;
mod queues;
#[cfg(test)]
mod shuttle_tests;
mod ticket;
mod wait_queue;

pub(super) use self::fairness::{HoldBack, StepBack};
pub(crate) use self::local_holder::LocalHolder;
pub(crate) use self::queues::WaitQueues;
pub(super) use self::ticket::Ticket;
pub(super) use self::wait_queue::{LOOK_AGAIN, Turn};
