//! Operations that continue when their caller has gone.
//!
//! A request on the wire cannot be taken back. If the caller stops waiting, because its future is dropped
//! or its token fires, the operation must still run to its end. Else an acquire leaves a lock without a
//! holder, and a pooled connection stays in the middle of a conversation. [`finish`] and
//! [`finish_acquire`] run the operation in place, and move the rest of it to the runtime when they are
//! interrupted. An operation in place costs two allocations and no task.
//!
//! # Requests that arrive late
//!
//! A store may carry out a request long after its sender has given up: a server was stopped and goes on, a
//! packet is sent again. So a backend gives each write a deadline in the store's own time, and the store
//! refuses the write afterwards: [`StoreClock`](crate::authoring::StoreClock) computes the deadline. This
//! makes the clean-up of an acquire with an unknown outcome certain: if the store says after the deadline
//! that there is no such lock, there will be none. A backend implements this check in [`Settle`], and runs
//! its acquires by [`finish_acquire_settled`].
//!
//! A store without such deadlines can compare before it writes. There an acquire states the key's fence counter as it was
//! read, and a clean-up moves the counter.

pub use crate::cancel::{
    Caller, ExtendBatches, Settle, Settled, Unsettled, check, finish, finish_acquire,
    finish_acquire_settled, finish_read, read, settle_later,
};
