//! Ready-made sinks for events.

#[cfg(feature = "opentelemetry")]
mod holds;
#[cfg(feature = "opentelemetry")]
mod opentelemetry;
#[cfg(feature = "tracing")]
mod tracing;
