//! Escapes invisible characters, which can change how the text around them is shown.

use std::fmt::Write as _;

/// Returns whether this is a control character (a terminal obeys it), changes the direction of a
/// line, has no width, or ends a line for a reader but not for a program.
fn is_invisible(char: char) -> bool {
    char.is_control()
        || matches!(char,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Escapes text for a terminal: an invisible character becomes, for example, `\u{202e}`.
pub(crate) fn escape_for_terminal(text: &str) -> String {
    escaped(text, |shown, char| shown.extend(char.escape_unicode()))
}

/// Escapes serialized JSON, where invisible characters occur in strings only: such a character
/// becomes, for example, `\u202e`. The value that a program parses stays the same.
pub(crate) fn escape_json(json: &str) -> String {
    escaped(json, |shown, char| {
        for unit in char.encode_utf16(&mut [0; 2]) {
            // Writing to a `String` never fails.
            let _ = write!(shown, "\\u{unit:04x}");
        }
    })
}

fn escaped(text: &str, escape: impl Fn(&mut String, char)) -> String {
    let mut shown = String::with_capacity(text.len());
    for char in text.chars() {
        if is_invisible(char) {
            escape(&mut shown, char);
        } else {
            shown.push(char);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So that a label looks the same wherever it is shown.
    #[test]
    fn no_label_has_a_character_that_is_escaped() {
        use syncguard::contract::Holder;

        for char in ('\0'..=char::MAX).filter(|char| is_invisible(*char)) {
            assert!(Holder::new(format!("a{char}")).is_err(), "{char:?}");
        }
    }

    #[test]
    fn each_character_that_turns_a_line_around_is_escaped() {
        let marks = ['\u{61c}', '\u{200e}', '\u{200f}'];
        for char in ('\u{202a}'..='\u{202e}').chain('\u{2066}'..='\u{2069}').chain(marks) {
            let escaped = format!("a{}b", char.escape_unicode());
            assert_eq!(escape_for_terminal(&format!("a{char}b")), escaped);
            assert_eq!(escape_json(&format!("a{char}b")), format!("a\\u{:04x}b", char as u32));
        }
    }

    #[test]
    fn invisible_characters_are_escaped_and_all_others_stay() {
        for (text, terminal, json) in [
            ("nightly:日本 é\\", "nightly:日本 é\\", "nightly:日本 é\\"),
            ("\u{1b}[2J\u{9b}", r"\u{1b}[2J\u{9b}", r"\u001b[2J\u009b"),
            ("a\u{202e}b\u{2066}", r"a\u{202e}b\u{2066}", r"a\u202eb\u2066"),
            ("\u{200b}\u{feff}\u{2028}", r"\u{200b}\u{feff}\u{2028}", r"\u200b\ufeff\u2028"),
            ("\u{e0041}", r"\u{e0041}", r"\udb40\udc41"),
        ] {
            assert_eq!(escape_for_terminal(text), terminal);
            assert_eq!(escape_json(text), json);
        }
    }
}
