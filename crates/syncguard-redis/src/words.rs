//! What a script is given.

use std::borrow::Cow;
use std::fmt::Write as _;

use fred::bytes::{Bytes, BytesMut};
use fred::types::Value;
use syncguard_core::Timestamp;

/// A key or an argument of a script.
pub(crate) enum Word<'a> {
    Text(Cow<'a, str>),
    /// One text after the other.
    Joined(&'a str, &'a str),
    Number(u64),
}

impl<'a> Word<'a> {
    pub(crate) const EMPTY: Self = Self::Joined("", "");

    pub(crate) fn into_text(self) -> Cow<'a, str> {
        match self {
            Self::Text(text) => text,
            Self::Joined(first, second) => [first, second].concat().into(),
            Self::Number(number) => number.to_string().into(),
        }
    }

    /// The bytes of a text, part by part.
    pub(crate) fn for_each_part(&self, mut work: impl FnMut(&[u8])) {
        match self {
            Self::Text(text) => work(text.as_bytes()),
            Self::Joined(first, second) => {
                work(first.as_bytes());
                work(second.as_bytes());
            }
            Self::Number(number) => work(number.to_string().as_bytes()),
        }
    }

    /// No word is longer than this, in bytes.
    fn longest(&self) -> usize {
        const MAX_DIGITS: usize = 20;
        match self {
            Self::Text(text) => text.len(),
            Self::Joined(first, second) => first.len() + second.len(),
            Self::Number(_) => MAX_DIGITS,
        }
    }

    fn write(&self, to: &mut BytesMut) {
        match self {
            Self::Text(text) => to.extend_from_slice(text.as_bytes()),
            Self::Joined(first, second) => {
                to.extend_from_slice(first.as_bytes());
                to.extend_from_slice(second.as_bytes());
            }
            Self::Number(number) => {
                // The buffer takes whatever is written.
                let _ = write!(to, "{number}");
            }
        }
    }

    /// The words of a command, as fred takes them: the script, how many keys there are, the keys, the
    /// arguments.
    ///
    /// What is not static is in one buffer: two allocations for all of it, instead of two for each word
    /// that comes in a `String`.
    pub(crate) fn command<const K: usize, const A: usize>(
        script: &'static str,
        keys: &[Self; K],
        arguments: &[Self; A],
    ) -> Vec<Value> {
        const COUNTS: [&str; 4] = ["0", "1", "2", "3"];
        let words = || keys.iter().chain(arguments);
        let mut buffer = BytesMut::with_capacity(words().map(Self::longest).sum());
        let mut command = Vec::with_capacity(2 + K + A);
        for word in [script, const { COUNTS[K] }] {
            command.push(Value::Bytes(Bytes::from_static(word.as_bytes())));
        }
        command.extend(words().map(|word| {
            word.write(&mut buffer);
            Value::Bytes(buffer.split().freeze())
        }));
        command
    }
}

impl From<String> for Word<'_> {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl<'a> From<&'a str> for Word<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl<'a> From<Cow<'a, str>> for Word<'a> {
    fn from(text: Cow<'a, str>) -> Self {
        Self::Text(text)
    }
}

impl From<Timestamp> for Word<'_> {
    fn from(time: Timestamp) -> Self {
        Self::Number(time.as_millis())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_all_its_words_in_order() {
        let keys = [Word::from("lock"), Word::Joined("id:", "F-jS"), Word::from("é".to_owned())];
        let arguments = [Word::EMPTY, Word::Number(0), Word::Number(u64::MAX), Word::from("end")];
        let words = Word::command("hash", &keys, &arguments);
        let words: Vec<_> = words.iter().map(|word| word.as_str().unwrap()).collect();
        let max = u64::MAX.to_string();
        assert_eq!(words, ["hash", "3", "lock", "id:F-jS", "é", "", "0", &max, "end"]);
    }

    #[test]
    fn a_command_without_keys_or_arguments_says_so() {
        let words = Word::command("hash", &[], &[]);
        let words: Vec<_> = words.iter().map(|word| word.as_str().unwrap()).collect();
        assert_eq!(words, ["hash", "0"]);
    }
}
