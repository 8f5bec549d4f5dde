//! The keys of a semaphore's permits.

/// The text between the key of a semaphore and the number of a permit.
pub(crate) const INFIX: &str = ":permit:";

/// The most permits that a semaphore may have.
pub(crate) const MAX_PERMITS: u32 = 1024;

/// Splits the key of a permit into the key of its semaphore and the number of the permit.
pub(crate) fn split(key: &str) -> Option<(&str, u32)> {
    let (semaphore, digits) = key.rsplit_once(INFIX)?;
    let permit: u32 = digits.parse().ok()?;
    // A semaphore writes no sign and no leading zeros.
    let is_written_so = permit.to_string() == digits;
    (is_written_so && !semaphore.is_empty() && permit < MAX_PERMITS).then_some((semaphore, permit))
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn keys_of_permits_are_told_from_others() {
        for (key, expected) in [
            ("exports:permit:0", Some(("exports", 0))),
            ("a:permit:1:permit:12", Some(("a:permit:1", 12))),
            ("exports:permit:1023", Some(("exports", 1023))),
            ("exports:permit:1024", None),
            ("exports:permit:07", None),
            ("exports:permit:+7", None),
            ("exports:permit:", None),
            (":permit:7", None),
            ("exports", None),
        ] {
            assert_eq!(split(key), expected, "{key}");
        }
    }
}
