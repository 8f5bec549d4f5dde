//! The facade, as its users see it.

mod connect;
mod own_code;
mod telemetry;
mod typescript;
