//! The storage names of keys, and their flaws.

use syncguard_core::Key;

use crate::mutants::flaws::Flaw;

/// The storage key. As in a real store, it is not the user's key.
pub(crate) fn name(flaw: Option<Flaw>, key: &Key) -> String {
    let text = key.expose();
    let name = match flaw {
        Some(Flaw::folds_case) => text.to_lowercase(),
        Some(Flaw::trims_keys) => text.trim().to_owned(),
        Some(Flaw::normalises_too_much) => text.replace('\u{fb01}', "fi").replace('\u{ff46}', "f"),
        Some(Flaw::truncates_keys) => text.chars().take(255).collect(),
        Some(Flaw::takes_keys_for_paths) => text.trim_matches('/').replace("//", "/"),
        Some(Flaw::strips_quotes) => text.replace(['\'', '"', '`'], ""),
        Some(Flaw::strips_control_characters) => text.replace(char::is_control, ""),
        _ => text.to_owned(),
    };
    format!("{PREFIX}{name}")
}

/// The key in the name of a record, if no flaw has changed it.
pub(crate) fn text(name: &str) -> &str {
    name.strip_prefix(PREFIX).unwrap_or(name)
}

const PREFIX: &str = "reference:";
