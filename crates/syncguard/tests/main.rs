//! The facade, as its users see it.

mod blocking;
mod connect;
mod own_code;
mod telemetry;
mod typescript;
