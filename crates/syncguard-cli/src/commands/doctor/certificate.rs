//! The finding about the end of the client certificate, on each store with TLS.

use std::time::{Duration, SystemTime};

use syncguard::Timestamp;
use syncguard::authoring::backend_url::BackendUrl;
use syncguard::authoring::tls::TlsOptions;

use super::finding::Finding;
use crate::time::utc;

/// A certificate that ends within this time is yellow.
const SOON: Duration = Duration::from_secs(14 * 24 * 60 * 60);

/// The finding for the certificate in the URL, if there is one.
pub(super) fn finding(url: &str) -> Option<Finding> {
    let mut options = TlsOptions::default();
    options.read_url(&BackendUrl::parse(url).ok()?).ok()?;
    // `connect` says what is wrong with files that cannot be used.
    of(options.client_certificate_end().ok()??, SystemTime::now())
}

fn of(end: SystemTime, now: SystemTime) -> Option<Finding> {
    let date = utc(Timestamp::from_system_time(end).ok()?);
    let mend = "put the next certificate and its key into the files of sslcert and sslkey: new connections read them";
    Some(match end.duration_since(now) {
        Err(_) => Finding::red("certificate", format!("the client certificate ended {date}"), mend),
        Ok(left) => {
            let says = format!("the client certificate ends {date}");
            if left < SOON {
                Finding::yellow("certificate", says, mend)
            } else {
                Finding::green("certificate", says)
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn a_certificate_is_yellow_before_its_end_and_red_after_it() {
        let end = SystemTime::UNIX_EPOCH + Duration::from_secs(2_000_000_000);
        for (now, level) in [
            (end - SOON, Level::Green),
            (end - SOON + Duration::from_secs(1), Level::Yellow),
            (end, Level::Yellow),
            (end + Duration::from_secs(1), Level::Red),
        ] {
            let finding = of(end, now).unwrap();
            assert_eq!(finding.level, level);
            assert!(finding.says.contains("2033-05-18T03:33:20Z"), "{}", finding.says);
        }
    }
}
