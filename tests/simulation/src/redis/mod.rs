//! Redis: the backend `syncguard-redis` with fred left out, and a server that runs the backend's own scripts.

mod data;
mod server;
mod wire;

pub(crate) use self::server::{Invalidations, Patch, Reply, Server};
pub(crate) use self::wire::backend;
