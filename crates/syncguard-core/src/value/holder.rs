//! The holder of a lock, described for people.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, LazyLock};

use super::normalize::nfc;

/// The part of a lock's record that is for people: the label of the holder, and a note for the reason.
///
/// No program decides by these texts, and they prove nothing. They are no secret: `Debug` shows them.
///
/// The label of a process is its host name and process id unless the program sets another one: on the backend,
/// on a [`Locker`](crate::Locker) or for one [lock](crate::LockConfig::with_holder).
///
/// ```
/// use syncguard_core::contract::Holder;
///
/// let holder = Holder::new("web-7f9c")?.with_note("run 4711")?;
/// assert_eq!((holder.label(), holder.note()), ("web-7f9c", Some("run 4711")));
/// # Ok::<(), syncguard_core::LockError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Holder(pub(super) Arc<Texts>);

/// The texts in the order of [`FIELDS`]. A text is empty if it is turned off, and `None` in a configuration that does not
/// set it, which then may take the backend's. Behind one pointer, because each waiter has a holder.
pub(super) type Texts = [Option<Box<str>>; FIELDS.len()];

/// The fields for people, under their names in a record. A new field goes to the end, since the column of an SQL table has
/// the texts in this order; no store needs another change.
pub(super) const FIELDS: &[&str] = &["holder", "note"];

pub(crate) const LABEL: usize = 0;
pub(crate) const NOTE: usize = 1;

impl Holder {
    /// The longest label, and the longest note, in bytes of UTF-8 after normalisation.
    pub const MAX_LENGTH_BYTES: usize = 128;

    /// A holder without a label and without a note.
    #[must_use]
    pub fn unnamed() -> Self {
        Self::of_label(Box::default())
    }

    /// Host name and process id: `web-7f9c/412`.
    #[must_use]
    pub fn this_process() -> Self {
        static HERE: LazyLock<Holder> =
            LazyLock::new(|| Holder::of_label(here(&host_name(), std::process::id())));
        HERE.clone()
    }

    /// The label; empty if it is turned off.
    #[must_use]
    pub fn label(&self) -> &str {
        self.text(LABEL).unwrap_or_default()
    }

    /// The note, if there is one.
    #[must_use]
    pub fn note(&self) -> Option<&str> {
        self.text(NOTE).filter(|note| !note.is_empty())
    }

    /// For authors of backends: the fields to store, by name. The first one is the label, which is there even if it is
    /// empty: a record without it was written by a client that polls.
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let texts = self.0.iter().map(|text| text.as_deref().unwrap_or_default());
        let fields = FIELDS.iter().copied().zip(texts).enumerate();
        fields.filter(|(at, (_, text))| *at == LABEL || !text.is_empty()).map(|(_, field)| field)
    }

    /// The texts as lines, in the order of the fields.
    pub(crate) fn lines(&self) -> Cow<'_, str> {
        match self.0.iter().rposition(|text| text.as_ref().is_some_and(|text| !text.is_empty())) {
            None | Some(LABEL) => self.label().into(),
            Some(last) => {
                let texts = self.0[..=last].iter().map(|text| text.as_deref().unwrap_or_default());
                texts.collect::<Vec<_>>().join("\n").into()
            }
        }
    }

    fn of_label(label: Box<str>) -> Self {
        let mut texts = Texts::default();
        texts[LABEL] = Some(label);
        Self(Arc::new(texts))
    }

    pub(super) fn text(&self, at: usize) -> Option<&str> {
        self.0[at].as_deref()
    }

    /// The holder of a configuration; the backend's holder fills in what the configuration does not set. A lock whose
    /// label is turned off takes nothing from the backend.
    pub(super) fn or(&self, backend: &Self) -> Self {
        let is_missing = |at: &usize| self.0[*at].is_none() && backend.0[*at].is_some();
        let missing: Vec<usize> = (0..FIELDS.len()).filter(is_missing).collect();
        if missing.is_empty() || self.text(LABEL) == Some("") {
            return self.clone();
        }
        let mut texts = (*self.0).clone();
        for at in missing {
            texts[at].clone_from(&backend.0[at]);
        }
        Self(Arc::new(texts))
    }
}

impl fmt::Debug for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut holder = f.debug_struct("Holder");
        for (name, text) in self.fields() {
            holder.field(name, &text);
        }
        holder.finish()
    }
}

/// False for characters that move the cursor, change the direction of text, or have no width.
pub(crate) fn is_visible(character: char) -> bool {
    !character.is_control()
        && !matches!(character,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// The host name, cut to the room there is, and the process id.
pub(super) fn here(host: &str, process: u32) -> Box<str> {
    let process = format!("/{process}");
    let host: String = host.chars().filter(|character| is_visible(*character)).collect();
    let host = nfc(&host);
    let room = Holder::MAX_LENGTH_BYTES - process.len();
    let fits = |end: &usize| *end <= room;
    let ends = host.char_indices().map(|(at, character)| at + character.len_utf8());
    let end = ends.take_while(fits).last().unwrap_or_default();
    format!("{}{process}", &host[..end]).into()
}

#[cfg(unix)]
fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(not(unix))]
fn host_name() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_default()
}
