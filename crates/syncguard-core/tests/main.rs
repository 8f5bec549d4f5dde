//! The core, on a small store.

mod attempts;
mod backend_url;
mod cancel;
mod common;
mod guard;
mod holder;
mod inventory;
mod late;
mod lock;
mod lost_fences;
mod min_hold;
mod observer;
mod properties;
mod redaction;
mod renewals;
mod signals;
mod store_clock;
mod vectors;
mod waiting;
