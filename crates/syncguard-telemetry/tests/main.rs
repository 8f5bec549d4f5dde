//! Telemetry around the memory backend.

mod common;
mod conformance;
mod delivery;
mod locks;
mod opentelemetry;
mod operations;
mod prometheus;
mod tracing;
