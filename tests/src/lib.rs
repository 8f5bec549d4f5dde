//! Nothing but tests: see the folder `tests`.
