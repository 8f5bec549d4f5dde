//! The keys of the parts of a recipe: the permits of a semaphore, the gate and the slots of readers and writers.

/// The text between the key of a semaphore and the number of a permit.
pub(crate) const PERMITS: &str = ":permit:";

/// The most permits that a semaphore may have.
pub(crate) const MAX_PERMITS: u32 = 1024;

/// The text between the key of readers and writers and its part.
pub(crate) const SHARED: &str = ":rw:";

/// The most slots, one for each process that reads.
pub(crate) const MAX_SLOTS: u32 = 64;

/// A part of a recipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// The lock of which a writer, and a reader that begins, has need.
    Gate,
    /// The slot of a process that reads; a writer holds all of them.
    Slot(u32),
    Permit(u32),
}

impl Part {
    /// The part as it is shown behind the key of its recipe.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Gate => "gate".to_owned(),
            Self::Slot(slot) => format!("slot {slot}"),
            Self::Permit(permit) => format!("permit {permit}"),
        }
    }

    pub(crate) fn recipe(self) -> &'static str {
        if matches!(self, Self::Permit(_)) { "semaphore" } else { "rw_lock" }
    }
}

/// Splits the key of a part into the key of its recipe and the part.
pub(crate) fn split(key: &str) -> Option<(&str, Part)> {
    let numbered = |infix, most, part: fn(u32) -> Part| {
        let (recipe, digits): (&str, &str) = key.rsplit_once(infix)?;
        let number: u32 = digits.parse().ok()?;
        // A recipe writes no sign and no leading zeros.
        let is_written_so = number.to_string() == digits;
        (is_written_so && number < most).then_some((recipe, part(number)))
    };
    let gate = || Some((key.strip_suffix("gate")?.strip_suffix(SHARED)?, Part::Gate));
    numbered(PERMITS, MAX_PERMITS, Part::Permit)
        .or_else(|| numbered(SHARED, MAX_SLOTS, Part::Slot))
        .or_else(gate)
        .filter(|(recipe, _)| !recipe.is_empty())
}

#[cfg(test)]
mod tests {
    use super::{Part, split};

    #[test]
    fn keys_of_parts_are_told_from_others() {
        for (key, expected) in [
            ("exports:permit:0", Some(("exports", Part::Permit(0)))),
            ("a:permit:1:permit:12", Some(("a:permit:1", Part::Permit(12)))),
            ("exports:permit:1023", Some(("exports", Part::Permit(1023)))),
            ("exports:permit:1024", None),
            ("exports:permit:07", None),
            ("exports:permit:+7", None),
            ("exports:permit:", None),
            (":permit:7", None),
            ("exports", None),
            ("index:rw:gate", Some(("index", Part::Gate))),
            ("index:rw:63", Some(("index", Part::Slot(63)))),
            ("index:rw:64", None),
            (":rw:gate", None),
            ("gate", None),
        ] {
            assert_eq!(split(key), expected, "{key}");
        }
    }
}
