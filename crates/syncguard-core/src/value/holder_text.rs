//! Making holders of texts, which are checked.

use std::sync::Arc;

use unicode_normalization::char::is_combining_mark;

use super::error::LockError;
use super::holder::{FIELDS, Holder, LABEL, NOTE, Texts, is_visible};
use super::normalize::nfc;

impl Holder {
    /// A holder with this label and without a note. An empty text turns the label off.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the text is longer than 128 bytes in NFC, or contains a control character or an
    /// invisible character.
    pub fn new(label: impl AsRef<str>) -> Result<Self, LockError> {
        Self::with_text(None, LABEL, label.as_ref())
    }

    /// The same holder with this note. An empty text is no note.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` as [`new`](Self::new).
    pub fn with_note(self, note: impl AsRef<str>) -> Result<Self, LockError> {
        Self::with_text(Some(&self), NOTE, note.as_ref())
    }

    /// The holder that the options set. Without a label in the options, it is
    /// [this process](Self::this_process).
    pub(crate) fn from_options(label: Option<&str>, note: Option<&str>) -> Result<Self, LockError> {
        let holder = label.map_or_else(|| Ok(Self::this_process()), Self::new)?;
        match note {
            Some(note) => holder.with_note(note),
            None => Ok(holder),
        }
    }

    /// For authors of backends: the holder in a record with these fields, which have the names of [`fields`](Self::fields).
    /// `None` if the record has none of them, and for a label that [`new`](Self::new) refuses: another client has written
    /// it. Another text that `new` refuses is left out.
    pub fn from_fields<'a>(mut field: impl FnMut(&'static str) -> Option<&'a str>) -> Option<Self> {
        let mut texts = Texts::default();
        for (at, name) in FIELDS.iter().enumerate() {
            let text = field(name).unwrap_or_default();
            // An earlier version wrote a tab before some labels.
            let text = text.strip_prefix('\t').filter(|_| at == LABEL).unwrap_or(text);
            match checked(name, text) {
                Ok(text) if at == LABEL || !text.is_empty() => texts[at] = Some(text),
                Err(_) if at == LABEL => return None,
                _ => {}
            }
        }
        let is_there = texts.iter().flatten().any(|text| !text.is_empty());
        is_there.then(|| Self(Arc::new(texts)))
    }

    /// The holder in a text of [`lines`](Self::lines), as [`from_fields`](Self::from_fields).
    pub(crate) fn from_lines(lines: &str) -> Option<Self> {
        let mut lines = lines.split('\n');
        Self::from_fields(|_| lines.next())
    }

    /// The holder of a configuration after it has set this text.
    pub(crate) fn with_text(set: Option<&Self>, at: usize, text: &str) -> Result<Self, LockError> {
        let mut texts = set.map_or_else(Texts::default, |set| (*set.0).clone());
        texts[at] = Some(checked(FIELDS[at], text)?);
        Ok(Self(Arc::new(texts)))
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
        let has_no_note = holder.text(NOTE).is_none() && !holder.label().is_empty();
        let recipe = recipe.filter(|_| has_no_note);
        recipe.and_then(|recipe| Self::with_text(Some(holder), NOTE, recipe).ok()).or(own)
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

/// True for characters that show nothing without others beside them: blanks, marks on a letter, and variation selectors.
fn shows_nothing(character: char) -> bool {
    let is_selector = matches!(character, '\u{fe00}'..='\u{fe0f}');
    is_selector
        || character == '\u{2800}'
        || character.is_whitespace()
        || is_combining_mark(character)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::value::holder::here;

    #[test]
    fn a_stored_holder_is_read_back_and_nothing_else_is() {
        for holder in [
            Holder::new("web 1").unwrap(),
            Holder::new("web 1").unwrap().with_note("run 4").unwrap(),
            Holder::unnamed().with_note("run 4").unwrap(),
        ] {
            let fields: HashMap<_, _> = holder.fields().collect();
            assert_eq!(
                Holder::from_fields(|name| fields.get(name).copied()).as_ref(),
                Some(&holder)
            );
            // An earlier version wrote a tab before some labels.
            for lines in [holder.lines().into_owned(), format!("\t{}", holder.lines())] {
                assert_eq!(Holder::from_lines(&lines).as_ref(), Some(&holder));
            }
        }
        for nobody in ["", "\t", "a\u{1b}[2J", "a\tb", "\t\ta", "\n\n", &"x".repeat(129)] {
            assert_eq!(Holder::from_lines(nobody), None, "{nobody:?}");
        }
        let found = Holder::from_lines("web\na\tb").unwrap();
        assert_eq!((found.label(), found.note()), ("web", None));
        assert!(Holder::unnamed().fields().eq([("holder", "")]));
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
                assert_eq!(Holder::from_lines(&wrong), None, "{turn:?}");
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
            let mut set = None;
            for (at, text) in [(LABEL, label), (NOTE, note)] {
                set = text.map(|text| Holder::with_text(set.as_ref(), at, text).unwrap()).or(set);
            }
            let holder = set.unwrap().or(&backend);
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
        let own = Holder::new("own").unwrap();
        let silent = own.clone().with_note("").unwrap();
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
