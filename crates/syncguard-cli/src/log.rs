//! Shows the library's log on standard error.

use std::fmt::{self, Debug, Write as _};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::{FmtContext, layer};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::args::Cli;
use crate::messages::Messages;
use crate::shell_messages::for_shell;

/// Shows errors, `INFO` and above, or everything. An error is shown to those who want errors only, too: it says that locks
/// are not safe. A loop shows warnings as well: it outlasts failures, of which no status tells. Logs of drivers stay
/// hidden: they may contain keys.
pub(crate) fn init(cli: &Cli) {
    let level = match cli.global.verbose {
        0 if cli.is_loop() && !cli.global.quiet => Level::WARN,
        0 => Level::ERROR,
        1 => Level::INFO,
        _ => Level::TRACE,
    };
    // Matches all crates whose names begin with `syncguard`.
    let ours = Targets::new().with_target("syncguard", level);
    let lines = layer().with_writer(|| Messages).with_ansi(false);
    let registry = tracing_subscriber::registry();
    if level == Level::TRACE {
        // For programmers: with the module that logged the line.
        registry.with(lines.without_time().with_filter(ours)).init();
    } else {
        registry.with(lines.event_format(Plain).with_filter(ours)).init();
    }
}

/// Formats events like the messages of this program.
struct Plain;

impl<S, N> FormatEvent<S, N> for Plain
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = Fields::default();
        event.record(&mut line);
        let level = match *event.metadata().level() {
            Level::ERROR => "error: ",
            Level::WARN => "warning: ",
            _ => "",
        };
        let Fields { message, error, details } = line;
        writeln!(writer, "syncguard: {level}{}", for_shell(&format!("{message}{error}{details}")))
    }
}

#[derive(Default)]
struct Fields {
    message: String,
    error: String,
    details: String,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // Writing to a `String` never fails.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            "error" => write!(self.error, ": {value:?}"),
            // The error text includes the code, the message names the store, and a report is for
            // programmers.
            "error_code" | "backend" | "report" => Ok(()),
            name => write!(self.details, " ({name} {value:?})"),
        };
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}
