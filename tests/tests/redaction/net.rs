//! A net that catches leaked secrets.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::{self, Write as _};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, RwLock};

use base64ct::{Base64Unpadded, Encoding as _};
use syncguard_conformance::LogWatch;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use tracing_log::{LogTracer, NormalizeEvent as _};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::{LookupSpan, Registry};

/// The searched parts of a secret: every piece of this many of its letters, digits, `-` and `_`.
const PIECE: usize = 16;

/// Each third piece of a text is looked up, which finds every part of a secret that has 18 signs.
const STEP: usize = 3;

/// Secrets, and the places where they were found. Clones share everything.
#[derive(Clone, Default)]
pub(crate) struct Net(Arc<Inner>);

#[derive(Default)]
struct Inner {
    pieces: RwLock<HashSet<[u8; PIECE]>>,
    /// One line for each place that leaked a secret.
    leaks: Mutex<BTreeMap<String, String>>,
    /// The number of lines read by target: a net that reads nothing proves nothing.
    read: Mutex<HashMap<String, u64>>,
}

impl Net {
    /// The net of this process. From now on it reads all lines.
    pub(crate) fn global() -> &'static Self {
        static NET: LazyLock<Net> = LazyLock::new(|| {
            let net = Net::default();
            // `LogWatch` is needed, or the suite's own cases about logs do not apply.
            let subscriber = Registry::default().with(LogWatch).with(net.clone());
            tracing::subscriber::set_global_default(subscriber).expect("the only subscriber");
            LogTracer::init().expect("the only logger");
            net
        });
        &NET
    }

    /// From now on this text is a secret. Texts that are too short or too plain to be unique are left out.
    pub(crate) fn add(&self, secret: &str) {
        let known = |piece: &[u8; PIECE]| self.pieces().contains(piece);
        let forms = [secret.to_owned()].into_iter().chain(base64(secret));
        let new: Vec<_> = forms
            .flat_map(|form| pieces(form.as_bytes(), 1).collect::<Vec<_>>())
            .filter(|piece| is_telling(piece) && !known(piece))
            .collect();
        if !new.is_empty() {
            self.0.pieces.write().unwrap_or_else(PoisonError::into_inner).extend(new);
        }
    }

    /// Reads a text that a person could see.
    pub(crate) fn read(&self, place: &str, text: &str) {
        self.count(place);
        if self.gives_away(text) {
            self.caught(place, text);
        }
    }

    fn gives_away(&self, text: &str) -> bool {
        let secrets = self.pieces();
        let has = |bytes: &[u8]| pieces(bytes, STEP).any(|piece| secrets.contains(&piece));
        let text = text.as_bytes();
        has(text) || lists(text).any(|bytes| has(&bytes)) || hex(text).any(|bytes| has(&bytes))
    }

    fn count(&self, target: &str) {
        let mut read = lock(&self.0.read);
        match read.get_mut(target) {
            Some(count) => *count += 1,
            None => drop(read.insert(target.to_owned(), 1)),
        }
    }

    fn caught(&self, place: &str, text: &str) {
        lock(&self.0.leaks).entry(place.to_owned()).or_insert_with(|| text.to_owned());
    }

    fn pieces(&self) -> std::sync::RwLockReadGuard<'_, HashSet<[u8; PIECE]>> {
        self.0.pieces.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The places of leaks, with an example each.
    pub(crate) fn leaks(&self) -> BTreeMap<String, String> {
        lock(&self.0.leaks).clone()
    }

    /// The number of lines from places that begin with this text.
    pub(crate) fn lines_from(&self, place: &str) -> u64 {
        let read = lock(&self.0.read);
        read.iter().filter(|(name, _)| name.starts_with(place)).map(|(_, count)| count).sum()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The pieces of a text's words at distances of `step`.
fn pieces(text: &[u8], step: usize) -> impl Iterator<Item = [u8; PIECE]> {
    text.split(|byte| !(byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')))
        .flat_map(move |word| word.windows(PIECE).step_by(step))
        .filter_map(|window| <[u8; PIECE]>::try_from(window).ok())
}

/// Returns true if a piece cannot occur by chance.
fn is_telling(piece: &[u8; PIECE]) -> bool {
    piece.iter().collect::<HashSet<_>>().len() > 7
}

/// The forms of a text in base64, which depend on the number of bytes before it.
fn base64(text: &str) -> impl Iterator<Item = String> {
    (0..3).filter_map(|skipped| text.as_bytes().get(skipped..)).map(Base64Unpadded::encode_string)
}

/// Bytes as a list of numbers, as `Vec<u8>` prints. Short lists are left out, since this runs for millions of lines.
fn lists(text: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let number = |digits: &[u8]| str::from_utf8(digits).ok()?.trim().parse().ok();
    text.split(|byte| !(byte.is_ascii_digit() || matches!(byte, b',' | b' ')))
        .filter(|list| list.len() > 2 * PIECE)
        .map(move |list| list.split(|byte| *byte == b',').filter_map(number).collect())
}

/// Bytes as hex.
fn hex(text: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
    text.split(|byte| !byte.is_ascii_hexdigit())
        .filter(|digits| digits.len() >= 2 * PIECE)
        .map(move |digits| digits.chunks(2).filter_map(byte).collect())
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
        let mut text = Text(String::with_capacity(256));
        record(&mut text);
        self.count(metadata.target());
        if self.gives_away(&text.0) {
            let line = metadata.line().unwrap_or_default();
            self.caught(&format!("{}:{line}", metadata.target()), &text.0);
        }
    }
}

/// The fields of an event in one text.
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // The source position of a line of the `log` crate is no part of its text.
        if !field.name().starts_with("log.") {
            write!(self.0, " {field}={value:?}").expect("a string takes everything");
        }
    }
}
