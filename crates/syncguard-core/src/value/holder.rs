//! The holder of a lock, described for people.

use std::fmt;
use std::sync::{Arc, LazyLock};

use unicode_normalization::char::is_combining_mark;

use super::error::LockError;
use super::normalize::nfc;

/// The holder of a lock, and the reason: a label and a note, which the store keeps with the lock.
///
/// Both are for people. No program decides by them, and they prove nothing. They are no secret: `Debug` shows
/// them.
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
pub struct Holder(Arc<Texts>);

/// Behind one pointer, because each waiter has a holder.
#[derive(PartialEq, Eq)]
struct Texts {
    /// Empty if the label is turned off; `None` in a configuration that sets no label.
    label: Option<Box<str>>,
    /// Empty for no note; `None` in a configuration that sets no note, which then may take the backend's.
    note: Option<Box<str>>,
}

impl Holder {
    /// The longest label, and the longest note, in bytes of UTF-8 after normalisation.
    pub const MAX_LENGTH_BYTES: usize = 128;

    /// A holder with this label and without a note. An empty text turns the label off.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the text is longer than 128 bytes in NFC, or contains a control character or an
    /// invisible character.
    pub fn new(label: impl AsRef<str>) -> Result<Self, LockError> {
        Ok(Self::of(Some(checked("holder", label.as_ref())?), None))
    }

    /// A holder without a label and without a note.
    #[must_use]
    pub fn unnamed() -> Self {
        Self::of(Some(Box::default()), None)
    }

    /// Host name and process id: `web-7f9c/412`.
    #[must_use]
    pub fn this_process() -> Self {
        static HERE: LazyLock<Holder> =
            LazyLock::new(|| Holder::of(Some(here(&host_name(), std::process::id())), None));
        HERE.clone()
    }

    /// The same holder with this note. An empty text is no note.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` as [`new`](Self::new).
    pub fn with_note(self, note: impl AsRef<str>) -> Result<Self, LockError> {
        let note = checked("note", note.as_ref())?;
        Ok(Self::of(self.0.label.clone(), Some(note)))
    }

    /// For authors of backends: the holder that the options set. Without a label in the options, it is
    /// [this process](Self::this_process).
    ///
    /// # Errors
    ///
    /// `InvalidArgument` as [`new`](Self::new).
    pub fn from_options(label: Option<&str>, note: Option<&str>) -> Result<Self, LockError> {
        let holder = label.map_or_else(|| Ok(Self::this_process()), Self::new)?;
        match note {
            Some(note) => holder.with_note(note),
            None => Ok(holder),
        }
    }

    /// The label; empty if it is turned off.
    #[must_use]
    pub fn label(&self) -> &str {
        self.0.label.as_deref().unwrap_or_default()
    }

    /// The note, if there is one.
    #[must_use]
    pub fn note(&self) -> Option<&str> {
        self.0.note.as_deref().filter(|note| !note.is_empty())
    }

    /// For authors of backends: the holder that is stored under this label and note. `None` if neither is
    /// stored, and for a text that [`new`](Self::new) refuses: another client has written it.
    #[must_use]
    pub fn from_stored(label: &str, note: Option<&str>) -> Option<Self> {
        // An earlier version wrote a tab before some labels.
        let label = checked("holder", label.strip_prefix('\t').unwrap_or(label)).ok()?;
        let note = checked("note", note.unwrap_or_default()).ok().filter(|note| !note.is_empty());
        if label.is_empty() && note.is_none() {
            return None;
        }
        Some(Self::of(Some(label), note))
    }

    fn of(label: Option<Box<str>>, note: Option<Box<str>>) -> Self {
        Self(Arc::new(Texts { label, note }))
    }

    /// The holder of a configuration after it has set this label.
    pub(crate) fn say_label(said: Option<&Self>, label: &str) -> Result<Self, LockError> {
        let note = said.and_then(|said| said.0.note.clone());
        Ok(Self::of(Some(checked("holder", label)?), note))
    }

    /// The holder of a configuration after it has set this note.
    pub(crate) fn say_note(said: Option<&Self>, note: &str) -> Result<Self, LockError> {
        let label = said.and_then(|said| said.0.label.clone());
        Ok(Self::of(label, Some(checked("note", note)?)))
    }

    /// The holder of a lock whose configuration sets this holder; `None` if it is the backend's. A lock of a recipe has
    /// the recipe's name as its note if nothing else is set for the note.
    pub(crate) fn of_lock(
        own: Option<&Self>,
        backend: &Self,
        recipe: Option<&'static str>,
    ) -> Option<Self> {
        let own = own.map(|own| own.or(backend));
        let holder = own.as_ref().unwrap_or(backend);
        let has_no_note = holder.0.note.is_none() && !holder.label().is_empty();
        match recipe.filter(|_| has_no_note).and_then(|recipe| checked("note", recipe).ok()) {
            Some(note) => Some(Self::of(holder.0.label.clone(), Some(note))),
            None => own,
        }
    }

    /// The holder of a configuration; the backend's holder fills in what the configuration does not set. A lock whose
    /// label is turned off takes no note from the backend.
    fn or(&self, backend: &Self) -> Self {
        let (own, other) = (&self.0, &backend.0);
        let inherits_note = own.note.is_none() && own.label.as_deref() != Some("");
        if own.label.is_some() && !(inherits_note && other.note.is_some()) {
            return self.clone();
        }
        let label = own.label.as_ref().or(other.label.as_ref());
        let note = own.note.as_ref().or(other.note.as_ref().filter(|_| inherits_note));
        Self::of(label.cloned(), note.cloned())
    }
}

impl fmt::Debug for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Holder").field("label", &self.label()).field("note", &self.note()).finish()
    }
}

/// A label or a note that every store can keep and every terminal can show.
fn checked(what: &str, text: &str) -> Result<Box<str>, LockError> {
    // The NFC of a longer text is too long as well: see `Key::MAX_RAW_BYTES`.
    if text.len() > 9 * Holder::MAX_LENGTH_BYTES {
        return Err(too_long(what, text.len()));
    }
    if !text.chars().all(is_visible) {
        return Err(LockError::invalid_argument(format!(
            "the {what} has a control character or an invisible one in it"
        )));
    }
    if !text.is_empty() && text.chars().all(shows_nothing) {
        return Err(LockError::invalid_argument(format!("the {what} shows nothing on a terminal")));
    }
    let text = nfc(text);
    if text.len() > Holder::MAX_LENGTH_BYTES {
        return Err(too_long(what, text.len()));
    }
    Ok(text.into())
}

fn too_long(what: &str, length: usize) -> LockError {
    LockError::invalid_argument(format!(
        "the {what} is {length} bytes long; at most {} are allowed after NFC normalisation",
        Holder::MAX_LENGTH_BYTES
    ))
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

/// True for characters that show nothing without others beside them: blanks, marks on a letter, and variation selectors.
fn shows_nothing(character: char) -> bool {
    let is_selector = matches!(character, '\u{fe00}'..='\u{fe0f}');
    is_selector
        || character == '\u{2800}'
        || character.is_whitespace()
        || is_combining_mark(character)
}

/// The host name, cut to the room there is, and the process id.
fn here(host: &str, process: u32) -> Box<str> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_holder_is_read_back_and_nothing_else_is() {
        for holder in [
            Holder::new("web 1").unwrap(),
            Holder::new("web 1").unwrap().with_note("run 4").unwrap(),
            Holder::unnamed().with_note("run 4").unwrap(),
        ] {
            // An earlier version wrote a tab before some labels.
            for label in [holder.label().to_owned(), format!("\t{}", holder.label())] {
                assert_eq!(Holder::from_stored(&label, holder.note()).as_ref(), Some(&holder));
            }
        }
        for nobody in ["", "\t", "a\u{1b}[2J", "a\tb", "\t\ta", &"x".repeat(129)] {
            assert_eq!(Holder::from_stored(nobody, None), None, "{nobody:?}");
        }
        let found = Holder::from_stored("web", Some("a\nb")).unwrap();
        assert_eq!((found.label(), found.note()), ("web", None));
    }

    #[test]
    fn only_what_every_store_keeps_and_every_terminal_shows_is_a_label() {
        let most = "x".repeat(Holder::MAX_LENGTH_BYTES);
        for right in ["", "web-7f9c/412", "a \"quoted\" \\ label", "Zürich", "⚠\u{fe0f}", &most]
        {
            assert_eq!(Holder::new(right).unwrap().label(), right);
        }
        let controls = ["a\nb", "\0", "a\u{7f}", "\u{9b}31m", "\u{200b}", "\u{feff}a"];
        let blanks =
            ["a\u{3164}", "\u{115f}", " ", "\u{2800} ", "\u{301}", "\u{fe0f}", "\u{e0100}"];
        for wrong in controls
            .into_iter()
            .chain(blanks)
            .chain([format!("{most}x").as_str(), &most.repeat(99)])
        {
            assert!(Holder::new(wrong).is_err(), "{wrong:?}");
            assert!(Holder::unnamed().with_note(wrong).is_err(), "{wrong:?}");
        }
        // Each character that turns a line around.
        for turn in ('\u{202a}'..='\u{202e}').chain('\u{2066}'..='\u{2069}').chain(['\u{61c}']) {
            for wrong in [turn.to_string(), format!("a{turn}b"), format!("{turn}a")] {
                assert!(Holder::new(&wrong).is_err(), "{turn:?}");
                assert!(Holder::unnamed().with_note(&wrong).is_err(), "{turn:?}");
                assert_eq!(Holder::from_stored(&wrong, None), None, "{turn:?}");
            }
        }
        assert_eq!(Holder::new("e\u{301}").unwrap().label(), "\u{e9}");
    }

    #[test]
    fn a_process_is_named_by_its_host_and_its_id() {
        assert_eq!(&*here("web-7f9c", 412), "web-7f9c/412");
        assert_eq!(&*here("odd\u{202e}\nhost", 1), "oddhost/1");
        let long = here(&"\u{e9}".repeat(200), u32::MAX);
        assert!(long.len() <= Holder::MAX_LENGTH_BYTES && long.ends_with("/4294967295"));
        let here = Holder::this_process();
        assert!(here.label().ends_with(&format!("/{}", std::process::id())), "{here:?}");
        assert!(checked("holder", here.label()).is_ok());
    }

    #[test]
    fn what_is_nearer_to_the_lock_decides() {
        let backend = Holder::new("backend").unwrap().with_note("of the backend").unwrap();
        for (label, note, expected) in [
            (Some("own"), None, ("own", Some("of the backend"))),
            (None, Some("own"), ("backend", Some("own"))),
            (None, Some(""), ("backend", None)),
            (Some(""), None, ("", None)),
            (Some(""), Some("own"), ("", Some("own"))),
            (Some("own"), Some("note"), ("own", Some("note"))),
        ] {
            let mut said = None;
            if let Some(label) = label {
                said = Some(Holder::say_label(said.as_ref(), label).unwrap());
            }
            if let Some(note) = note {
                said = Some(Holder::say_note(said.as_ref(), note).unwrap());
            }
            let holder = said.unwrap().or(&backend);
            assert_eq!((holder.label(), holder.note()), expected);
        }
    }

    #[test]
    fn a_recipe_is_the_note_if_nothing_else_is() {
        let of = |own: Option<&Holder>, backend: &Holder, recipe| {
            let holder = Holder::of_lock(own, backend, recipe);
            holder.map(|holder| (holder.label().to_owned(), holder.note().map(str::to_owned)))
        };
        let named =
            |label: &str, note: Option<&str>| Some((label.to_owned(), note.map(str::to_owned)));
        let backend = Holder::new("backend").unwrap();
        let own = Holder::say_label(None, "own").unwrap();
        let silent = Holder::say_note(Some(&own), "").unwrap();
        let (recipe, unnamed) = (Some("election"), Holder::unnamed());
        assert_eq!(of(None, &backend, None), None);
        assert_eq!(of(None, &backend, recipe), named("backend", recipe));
        assert_eq!(of(Some(&own), &backend, recipe), named("own", recipe));
        assert_eq!(of(Some(&silent), &backend, recipe), named("own", None));
        assert_eq!(of(Some(&unnamed), &backend, recipe), named("", None));
        assert_eq!(of(None, &unnamed, recipe), None);
        assert_eq!(of(None, &backend, Some("a\nb")), None);
        let backend = backend.with_note("a note").unwrap();
        assert_eq!(of(None, &backend, recipe), None);
        assert_eq!(of(Some(&own), &backend, recipe), named("own", Some("a note")));
    }
}
