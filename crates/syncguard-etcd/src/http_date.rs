//! The `Date` of an answer over HTTP.

use std::time::UNIX_EPOCH;

/// The Unix second in the head of an answer.
pub(crate) fn of_answer(answer: &str) -> Option<i64> {
    let head = answer.split("\r\n\r\n").next()?;
    let date = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("date").then(|| value.trim())
    })?;
    let since = httpdate::parse_http_date(date).ok()?.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_secs()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_is_found_in_the_head() {
        let answer = "HTTP/1.0 200 OK\r\ndate: Thu, 26 Nov 2026 15:04:51 GMT\r\n\r\nDate: x";
        assert_eq!(of_answer(answer), Some(1_795_705_491));
        let body = "HTTP/1.0 200 OK\r\n\r\nDate: Thu, 01 Jan 1970 00:00:07 GMT";
        assert_eq!(of_answer(body), None);
        assert_eq!(of_answer("HTTP/1.0 200 OK\r\nDate: 26.11.2026\r\n\r\n"), None);
    }
}
