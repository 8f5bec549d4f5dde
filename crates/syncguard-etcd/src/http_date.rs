//! The `Date` of an answer over HTTP.

/// The Unix second in the head of an answer.
pub(crate) fn of_answer(answer: &str) -> Option<i64> {
    let head = answer.split("\r\n\r\n").next()?;
    let date = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("date").then(|| value.trim())
    });
    parse(date?)
}

/// Reads the form that servers send: `Thu, 26 Nov 2026 15:04:51 GMT`.
fn parse(date: &str) -> Option<i64> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let mut words = date.split_once(", ")?.1.split(' ');
    let mut word = || words.next();
    let day: i64 = word()?.parse().ok().filter(|day| (1..=31).contains(day))?;
    let month = i64::try_from(MONTHS.find(word()?)?).ok()? / 3 + 1;
    let year: i64 = word()?.parse().ok().filter(|year| (1970..=9999).contains(year))?;
    let mut clock = word()?.split(':').map(|part| part.parse::<i64>().ok().filter(|n| *n < 61));
    let mut next = || clock.next().flatten();
    let (hours, minutes, seconds) = (next()?, next()?, next()?);
    (word()? == "GMT").then_some(())?;
    Some(((days(year, month, day) * 24 + hours) * 60 + minutes) * 60 + seconds)
}

/// The days since 1970 of a date in the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March here, so that the leap day is the last one.
    let year = if month > 2 { year } else { year - 1 };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + year / 4 - year / 100 + year / 400 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read() {
        for (date, expected) in [
            ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777)),
            ("Tue, 29 Feb 2000 23:59:59 GMT", Some(951_868_799)),
            ("Thu, 26 Nov 2026 15:04:51 GMT", Some(1_795_705_491)),
            ("Thu, 01 Mar 2100 00:00:00 GMT", Some(4_107_542_400)),
            ("", None),
            ("Thu, 26 Xxx 2026 15:04:51 GMT", None),
            ("Thu, 26 Nov 2026 15:04 GMT", None),
            ("Thu, 26 Nov 2026 15:04:51 CET", None),
            ("Thu, 99 Nov 2026 15:04:51 GMT", None),
            ("26.11.2026", None),
        ] {
            assert_eq!(parse(date), expected, "{date}");
        }
        let answer = "HTTP/1.0 200 OK\r\ndate: Thu, 01 Jan 1970 00:00:07 GMT\r\n\r\nDate: x";
        assert_eq!(of_answer(answer), Some(7));
        assert_eq!(of_answer("HTTP/1.0 200 OK\r\n\r\nDate: Thu, 01 Jan 1970 00:00:07 GMT"), None);
    }
}
