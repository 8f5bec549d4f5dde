//! A finding of the doctor.

use std::path::Path;

use syncguard::diagnostics::HealthFinding;
pub(super) use syncguard::diagnostics::HealthLevel as Level;

use crate::exit::Failure;

pub(super) struct Finding {
    pub(super) level: Level,
    /// The subject: one word that never changes.
    pub(super) about: &'static str,
    pub(super) says: String,
    /// The command or change that mends the problem.
    pub(super) mend: Option<String>,
    /// True if the store does not let this user do something.
    pub(super) is_refusal: bool,
}

impl Finding {
    pub(super) fn green(about: &'static str, says: impl Into<String>) -> Self {
        Self { level: Level::Green, about, says: says.into(), mend: None, is_refusal: false }
    }

    pub(super) fn yellow(
        about: &'static str,
        says: impl Into<String>,
        mend: impl Into<String>,
    ) -> Self {
        let mend = Some(mend.into());
        Self { level: Level::Yellow, about, says: says.into(), mend, is_refusal: false }
    }

    pub(super) fn red(
        about: &'static str,
        says: impl Into<String>,
        mend: impl Into<String>,
    ) -> Self {
        Self { level: Level::Red, ..Self::yellow(about, says, mend) }
    }

    /// A refusal by the store or the library.
    pub(super) fn refusal(about: &'static str, failure: &Failure) -> Self {
        let says = failure.to_string();
        Self { level: Level::Red, about, says, mend: None, is_refusal: true }
    }

    /// The finding for a store without a usable connection.
    pub(super) fn of_connecting(failure: &Failure) -> Self {
        let finding = Self::of_pooler(failure).unwrap_or_else(|| Self::refusal("connect", failure));
        // The URL names a single node of a cluster.
        let is_node = finding.says.contains("redis-cluster://");
        let mend = is_node.then(|| {
            "redis-cluster:// instead of redis:// in the URL, or behind a proxy key_prefix=%7Bsyncguard%7D".to_owned()
        });
        finding.with_mend(mend)
    }

    /// The finding for the default store before its first use.
    pub(super) fn of_unused_default(path: &Path) -> Self {
        let path = path.display();
        Self::yellow(
            "store",
            format!(
                "no store is named, and the file of this user, {path}, does not exist yet: nothing was examined"
            ),
            "name the store of your jobs: syncguard doctor URL, or SYNCGUARD_STORE",
        )
    }

    /// The finding for a pooler in transaction mode, if the failure speaks of one. Any operation
    /// may be the first to fail.
    pub(super) fn of_pooler(failure: &Failure) -> Option<Self> {
        let says = failure.to_string();
        let is_pooler =
            says.contains("unprepared statements") || says.contains("unprepared_statements");
        is_pooler.then(|| Self { is_refusal: true, ..Self::pooler(says) })
    }

    /// The finding for a pooler that loses prepared statements.
    pub(super) fn pooler(says: impl Into<String>) -> Self {
        Self::red("pooler", says, "add unprepared_statements=true to the URL")
    }

    /// The finding for the zones of `--tz`.
    #[cfg(feature = "ticks")]
    pub(super) fn of_zones() -> Self {
        let data = syncguard::recipes::Schedule::time_zone_data();
        let says = format!(
            "the time zone data are {data}, a part of this program: programs with the same data agree on the ticks of --tz"
        );
        Self::green("zones", says)
    }

    /// The same finding with this mend, if there is one.
    pub(super) fn with_mend(self, mend: Option<String>) -> Self {
        Self { mend: mend.or(self.mend), ..self }
    }
}

impl From<HealthFinding> for Finding {
    fn from(found: HealthFinding) -> Self {
        let HealthFinding { level, about, says, mend, .. } = found;
        Self { level, about, says, mend, is_refusal: false }
    }
}
