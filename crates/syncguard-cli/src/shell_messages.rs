//! Rewrites the library's messages, which are written for programmers, for users of a shell.

/// How a user makes the tables.
pub(crate) const SETUP: &str = "run `syncguard setup`, or add setup_schema=true to the URL, once, as a user who may create tables";
const TLS: &str = "needs a syncguard that was built with the feature `tls`";

/// Parts of messages, and what replaces them for a user who types options and URLs. The first that fits counts.
const REPLACEMENTS: &[(&str, &str)] = &[
    ("run setup_schema, or connect with setup_schema=true in the URL", SETUP),
    ("run setup_schema", SETUP),
    ("run set-up as ", "run `syncguard setup` as "),
    (
        "choose other names with with_tables",
        "give other names with lock_table and fence_table in the URL",
    ),
    (
        "name the owner: with_trusted_owner, in a URL trusted_owner=",
        "add to the URL trusted_owner=",
    ),
    ("set `with_wait_replicas`", "add wait_replicas=1 to the URL"),
    ("turn on unprepared statements", "add unprepared_statements=true to the URL"),
    ("needs the feature `tls` of syncguard-redis or syncguard", TLS),
    ("needs the feature `tls` of syncguard-etcd or syncguard", TLS),
    ("needs the feature `tls` of syncguard-postgres or syncguard, or a pool of your own", TLS),
    ("needs the feature `tls` of syncguard-postgres or syncguard", TLS),
    (
        "no tokio runtime to give locks back in; without one they end by their TTL",
        "locks could not be given back before the end of this program; they end by their TTL",
    ),
    ("and more of that is logged at debug", "and -vv shows each time"),
];

/// Rewrites a message for the user who typed the command.
pub(crate) fn for_shell(message: &str) -> String {
    let mut message = message.to_owned();
    for (of_library, for_users) in REPLACEMENTS {
        message = message.replace(of_library, for_users);
    }
    rounded(&message)
}

/// Rounds durations in a text to about three digits: `1.234567891s` becomes `1.23 s`.
fn rounded(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(|char: char| char.is_ascii_digit()) {
        let (before, number) = rest.split_at(start);
        let length = number.find(|char: char| !char.is_ascii_digit() && char != '.');
        let (number, behind) = number.split_at(length.unwrap_or(number.len()));
        // Digits in a name or an address are no duration.
        let is_alone =
            !before.ends_with(|char: char| char.is_alphanumeric() || "_-.:".contains(char));
        shown.push_str(before);
        match duration(number, behind).filter(|_| is_alone) {
            Some((number, unit)) => {
                shown.extend([number.as_str(), " ", unit]);
                rest = behind.get(unit.len()..).unwrap_or_default();
            }
            None => {
                shown.push_str(number);
                rest = behind;
            }
        }
    }
    shown.push_str(rest);
    shown
}

/// The rounded number and its unit, if the number has too many digits.
fn duration(number: &str, behind: &str) -> Option<(String, &'static str)> {
    let (whole, fraction) = number.split_once('.')?;
    let digits = 3_usize.saturating_sub(whole.trim_start_matches('0').len());
    if fraction.len() <= digits {
        return None;
    }
    let unit = ["ns", "µs", "ms", "s"].into_iter().find(|unit| {
        let after = behind.strip_prefix(unit);
        after.is_some_and(|after| !after.starts_with(char::is_alphanumeric))
    })?;
    let number: f64 = number.parse().ok()?;
    Some((format!("{number:.digits$}"), unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_about_three_digits() {
        for (text, shown) in [
            ("no answer within 1.234567891s", "no answer within 1.23 s"),
            ("29.999123456s", "30.0 s"),
            ("the limit of 123.456789ms; nothing", "the limit of 123 ms; nothing"),
            ("took 1234.5678s (0.123456s)", "took 1235 s (0.123 s)"),
            ("1.5s, 2.25ms, 30s, 1s 200ms", "1.5s, 2.25ms, 30s, 1s 200ms"),
            (
                "127.0.0.1:6379 and 3.51.3, SQLSTATE 42P01",
                "127.0.0.1:6379 and 3.51.3, SQLSTATE 42P01",
            ),
            ("version 15.123456 and v1.23456s", "version 15.123456 and v1.23456s"),
            ("1.23456seconds", "1.23456seconds"),
            ("", ""),
        ] {
            assert_eq!(rounded(text), shown);
        }
    }

    #[test]
    fn functions_of_the_library_are_options() {
        for (of_library, for_users) in REPLACEMENTS {
            assert_eq!(for_shell(of_library), *for_users);
        }
    }
}
