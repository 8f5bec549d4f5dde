//! The tests that the guide shows on its page "Testing your own code". The memory backend needs no
//! server, and time is paused, so none of them waits.

#![cfg(feature = "memory")]

mod busy;
mod crash;
mod failing_store;
mod late;
mod loss;
