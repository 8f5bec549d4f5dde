//! Examines Firestore.

use syncguard::contract::IsLockedRequest;
use syncguard::firestore::{ClockDrift, DriftLevel, FirestoreBackend};
use syncguard::{DynBackend, LockBackend as _};

use super::examination::Examination;
use super::finding::Finding;
use super::probe::KEY;
use crate::exit::{Failure, Status};

pub(super) async fn examine(url: &str) -> Result<Examination, Failure> {
    let backend = FirestoreBackend::connect(url).await?;
    // Every answer carries the server's time. The first answer includes the time to connect, and so
    // is less exact.
    for _ in 0..3 {
        if let Err(error) = backend.is_locked(IsLockedRequest::new(KEY)?).await {
            let failure = Failure::from(error);
            if failure.status() == Status::UNAVAILABLE {
                return Err(failure);
            }
        }
    }
    let findings = backend.clock_drift().map(clock).into_iter().collect();
    Ok(Examination {
        backend: DynBackend::new(backend),
        findings,
        access: Some(access(url)),
        round_trips: (2, 2),
    })
}

/// The role that gives this user the rights that locks need.
fn access(url: &str) -> String {
    let project =
        url.trim_start_matches("firestore://").split(['/', '?']).next().unwrap_or_default();
    format!(
        "gcloud projects add-iam-policy-binding {project} --member=MEMBER --role=roles/datastore.user"
    )
}

fn clock(drift: ClockDrift) -> Finding {
    clock_finding(drift.level(), drift.millis())
}

fn clock_finding(level: DriftLevel, millis: i64) -> Finding {
    let side = if millis < 0 { "behind" } else { "ahead of" };
    let says = format!("this machine's clock is {} ms {side} Firestore's", millis.unsigned_abs());
    let mend = "sudo timedatectl set-ntp true (or: sudo chronyc makestep)";
    match level {
        DriftLevel::Fine => Finding::green("clock", says),
        DriftLevel::Warn => Finding::yellow("clock", says, mend),
        _ => Finding::red("clock", format!("{says}: locks may end early or late"), mend),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn a_clock_that_is_off_is_named() {
        for (level, shown) in [
            (DriftLevel::Fine, Level::Green),
            (DriftLevel::Warn, Level::Yellow),
            (DriftLevel::Block, Level::Red),
        ] {
            let finding = clock_finding(level, 700);
            assert!(finding.level == shown && finding.says.contains("700 ms ahead of"));
        }
        assert!(clock_finding(DriftLevel::Block, -700).says.contains("700 ms behind Firestore's"));
    }
}
