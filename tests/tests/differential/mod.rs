//! All backends behave alike: the same steps on the stores, through `DynBackend`, get the same answers, except for
//! times and lock ids.

mod differences;
mod extremes;
mod keys;
mod late;
mod people;
mod random;
mod script;
mod scripted;
mod simulated;
mod stores;
