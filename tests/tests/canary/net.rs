//! Catches what must not be said.

use std::collections::{BTreeMap, HashSet};
use std::fmt::{self, Write as _};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, RwLock};

use syncguard_conformance::LogWatch;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use tracing_log::{LogTracer, NormalizeEvent as _};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::{LookupSpan, Registry};

/// What of a secret is looked for: every piece of this many of its letters, digits, `-` and `_`.
const PIECE: usize = 16;

/// Secrets, and where they were found. All of it is shared by the clones.
#[derive(Clone, Default)]
pub(crate) struct Net(Arc<Inner>);

#[derive(Default)]
struct Inner {
    pieces: RwLock<HashSet<[u8; PIECE]>>,
    /// One line for each place that gave something away.
    leaks: Mutex<BTreeMap<String, String>>,
    /// How much was read, by target: a net that sees nothing proves nothing.
    read: Mutex<BTreeMap<String, u64>>,
}

impl Net {
    /// The net of this process. From now on it reads everything.
    pub(crate) fn global() -> &'static Self {
        static NET: LazyLock<Net> = LazyLock::new(|| {
            let net = Net::default();
            // `LogWatch`, or the suite's own cases about logs do not apply.
            let subscriber = Registry::default().with(LogWatch).with(net.clone());
            tracing::subscriber::set_global_default(subscriber).expect("the only subscriber");
            LogTracer::init().expect("the only logger");
            net
        });
        &NET
    }

    /// From now on this must not be said. Texts too short or too plain to be told from others by
    /// chance are left out.
    pub(crate) fn add(&self, secret: &str) {
        let known = |piece: &[u8; PIECE]| self.pieces().contains(piece);
        let new: Vec<_> = pieces(secret.as_bytes()).filter(|piece| !known(piece)).collect();
        if !new.is_empty() {
            self.0.pieces.write().unwrap_or_else(PoisonError::into_inner).extend(new);
        }
    }

    /// Reads a text that somebody could see.
    pub(crate) fn read(&self, place: &str, text: &str) {
        *lock(&self.0.read).entry(place.to_owned()).or_default() += 1;
        if self.gives_away(text.as_bytes()) || decoded(text).any(|bytes| self.gives_away(&bytes)) {
            lock(&self.0.leaks).entry(place.to_owned()).or_insert_with(|| text.to_owned());
        }
    }

    fn gives_away(&self, text: &[u8]) -> bool {
        let secrets = self.pieces();
        pieces(text).any(|piece| secrets.contains(&piece))
    }

    fn pieces(&self) -> std::sync::RwLockReadGuard<'_, HashSet<[u8; PIECE]>> {
        self.0.pieces.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where something was given away, with an example each.
    pub(crate) fn leaks(&self) -> BTreeMap<String, String> {
        lock(&self.0.leaks).clone()
    }

    /// How many lines came from places that begin with this.
    pub(crate) fn lines_from(&self, place: &str) -> u64 {
        let read = lock(&self.0.read);
        read.iter().filter(|(name, _)| name.starts_with(place)).map(|(_, count)| count).sum()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All pieces of the words of a text.
fn pieces(text: &[u8]) -> impl Iterator<Item = [u8; PIECE]> {
    text.split(|byte| !(byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')))
        .flat_map(|word| word.windows(PIECE))
        .filter_map(|window| <[u8; PIECE]>::try_from(window).ok())
        .filter(|piece| piece.iter().collect::<HashSet<_>>().len() > 7)
}

/// What a text says in other ways: bytes as a list of numbers, as `Vec<u8>` prints, or as hex.
fn decoded(text: &str) -> impl Iterator<Item = Vec<u8>> {
    let lists =
        text.split(|c: char| !(c.is_ascii_digit() || matches!(c, ',' | ' '))).filter_map(|list| {
            let bytes = list.split(',').map(|number| number.trim().parse().ok());
            (list.len() > 2 * PIECE).then(|| bytes.flatten().collect())
        });
    let hex = text.split(|c: char| !c.is_ascii_hexdigit()).filter_map(|digits| {
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        (digits.len() >= 2 * PIECE).then(|| digits.as_bytes().chunks(2).filter_map(byte).collect())
    });
    lists.chain(hex)
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Net {
    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        self.look(attributes.metadata(), |text| attributes.record(text));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(metadata) = context.metadata(id) {
            self.look(metadata, |text| values.record(text));
        }
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let normal = event.normalized_metadata();
        self.look(normal.as_ref().unwrap_or(event.metadata()), |text| event.record(text));
    }
}

impl Net {
    fn look(&self, metadata: &Metadata<'_>, record: impl FnOnce(&mut Text)) {
        let mut text = Text(metadata.name().to_owned());
        record(&mut text);
        let line = metadata.line().unwrap_or_default();
        self.read(&format!("{}:{line}", metadata.target()), &text.0);
    }
}

/// All fields of an event in one text.
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Where a line of the `log` crate comes from is no part of what it says.
        if !field.name().starts_with("log.") {
            write!(self.0, " {field}={value:?}").expect("a string takes everything");
        }
    }
}
