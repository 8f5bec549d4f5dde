//! All backends, one behaviour: the same is done to the four stores, through `DynBackend`, and the
//! same is answered, up to times and lock ids.

mod differences;
mod extremes;
mod keys;
mod late;
mod locks;
mod random;
mod script;
mod scripted;
mod stores;
mod twins;
