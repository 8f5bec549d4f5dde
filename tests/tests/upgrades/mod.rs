//! Servers that are replaced by a newer release while locks are taken, as the guide's page `production` says.
//!
//! No name of a test here names a server: `cargo xtask test --servers` would run it on one release, and it needs two.

/// Only `cargo xtask test --full` runs these.
mod long {
    mod databases;
    mod load;
    mod members;
    mod replicas;
    mod slots;
}
