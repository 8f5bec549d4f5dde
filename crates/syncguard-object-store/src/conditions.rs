//! Finds out whether a store heeds the conditions of writes.
//!
//! | request | answer of a store that is fit for locks |
//! |---|---|
//! | create an object that is not there | done |
//! | create it again | refused: 412, or 409 |
//! | replace it by its tag | done, with another tag |
//! | replace it by its earlier tag | refused: 412, or 409 |
//! | replace it by an invented tag | refused: 412, or 409 |
//! | replace an object that is not there, by a tag | refused: 412, 409, or 404 |
//! | 32 times at once: create it | done for one of them |
//! | 32 times at once: replace it by its tag | done for one of them |
//!
//! Only a write that is done and should be refused is proof against a store. A write that is refused may have been carried out
//! by a proxy before it was tried again, and harms nobody.

use futures_util::future::join_all;
use object_store::path::Path;
use object_store::{PutMode, UpdateVersion};
use syncguard_core::authoring::Fault;
use syncguard_core::diagnostics::HealthFinding;
use syncguard_core::{ErrorCode, LockError};
use tokio::time::{Duration, Instant};

use crate::client::{Client, Put};
use crate::layout::Layout;
use crate::record;

/// The faults of a store with conditions: see [`ObjectStoreBackend::check_conditions`](crate::ObjectStoreBackend::check_conditions).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConditionReport {
    /// Each fault, such as `it creates an object that is there already`; empty for a store that did nothing wrong.
    pub faults: Vec<&'static str>,
    /// True if the check had races.
    is_thorough: bool,
}

impl ConditionReport {
    /// The finding of a health check.
    #[must_use]
    pub fn finding(&self) -> HealthFinding {
        let about = "conditions";
        if let [_, ..] = &*self.faults {
            let says = format!("two callers would get one lock: {}", self.faults.join("; "));
            let mend = "use a store, or a release of it, that heeds If-Match and If-None-Match";
            return HealthFinding::red(about, says, mend);
        }
        HealthFinding::green(
            about,
            if self.is_thorough {
                "the store heeds the conditions of writes, also in races of 32: evidence, not proof"
            } else {
                "the store heeds the conditions of writes, as far as a few writes can show"
            },
        )
    }
}

/// The writes of a race.
const RACE: usize = 32;
/// The races of each kind.
const ROUNDS: usize = 4;

struct Check<'c> {
    client: &'c Client,
    limit: Duration,
    report: ConditionReport,
}

/// Checks a store by five small requests, or by some three hundred, each within this limit.
pub(crate) async fn check(
    client: &Client,
    layout: &Layout,
    is_thorough: bool,
    limit: Duration,
) -> Result<ConditionReport, Fault> {
    let name = layout.check(&record::nonce()?);
    let absent = layout.check(&record::nonce()?);
    let report = ConditionReport { faults: Vec::new(), is_thorough };
    let mut check = Check { client, limit, report };
    let checked = check.run(&name, &absent, is_thorough).await;
    for name in [&name, &absent].into_iter().take(if is_thorough { 2 } else { 1 }) {
        // An object that is left behind harms nobody.
        let _ = client.delete(name, Instant::now() + limit).await;
    }
    checked.map(|()| check.report)
}

/// The error for a store with such a report.
pub(crate) fn refusal(report: &ConditionReport) -> Result<(), LockError> {
    match report.faults.first() {
        None => Ok(()),
        Some(fault) => Err(LockError::invalid_argument(format!(
            "the store is not fit for locks: {fault}, so two callers would get one lock"
        ))),
    }
}

impl Check<'_> {
    async fn run(&mut self, name: &Path, absent: &Path, is_thorough: bool) -> Result<(), Fault> {
        // Nobody else writes to this name, so a refusal is the answer to a write that was carried out twice.
        let Put::Done(first) = self.put(name, PutMode::Create).await? else {
            return Err(Fault::conflict());
        };
        let again = self.expect_refusal(name, PutMode::Create);
        let tag = again.await?.map_or(first, |tag| {
            self.report.faults.push("it creates an object that is there already");
            tag
        });
        let Some(next) = tag_after(self.put(name, PutMode::Update(tag.clone())).await)? else {
            return Ok(());
        };
        if next == tag {
            self.report.faults.push("it gives two states of an object one tag");
        }
        if self.expect_refusal(name, PutMode::Update(tag.clone())).await?.is_some() {
            self.report.faults.push("it replaces an object by the tag of an earlier state");
        }
        if !is_thorough {
            return Ok(());
        }
        let invented = UpdateVersion {
            e_tag: Some("\"0123456789abcdef0123456789abcdef\"".to_owned()),
            version: Some("1".to_owned()),
        };
        if self.expect_refusal(name, PutMode::Update(invented)).await?.is_some() {
            self.report.faults.push("it replaces an object by a tag that it never gave");
        }
        if self.expect_refusal(absent, PutMode::Update(tag)).await?.is_some() {
            self.report.faults.push("it replaces an object that is not there");
        }
        for _ in 0..ROUNDS {
            // An answer that leaves the outcome open is not counted against the store.
            let _ = self.client.delete(absent, Instant::now() + self.limit).await;
            let Some(tag) = self.race(absent, &PutMode::Create).await? else { return Ok(()) };
            self.race(absent, &PutMode::Update(tag)).await?;
        }
        Ok(())
    }

    async fn put(&self, name: &Path, mode: PutMode) -> Result<Put, Fault> {
        let deadline = Instant::now() + self.limit;
        self.client.put(name, record::nonce()?.into_bytes(), mode, deadline).await
    }

    /// The tag after a write that should be refused and was done.
    async fn expect_refusal(
        &self,
        name: &Path,
        mode: PutMode,
    ) -> Result<Option<UpdateVersion>, Fault> {
        tag_after(self.put(name, mode).await)
    }

    /// The tag after a race that one has won.
    async fn race(&mut self, name: &Path, mode: &PutMode) -> Result<Option<UpdateVersion>, Fault> {
        let all = join_all((0..RACE).map(|_| self.put(name, mode.clone()))).await;
        let mut winners = all.into_iter().filter_map(|answer| match answer {
            Ok(Put::Done(tag)) => Some(tag),
            _ => None,
        });
        let first = winners.next();
        if winners.next().is_some() {
            self.report.faults.push("it carries out two of several writes of one moment, of which each states the same condition");
            return Ok(None);
        }
        Ok(first)
    }
}

/// Google takes one write a second to an object, and answers more of them with "too many". That is no evidence.
fn tag_after(answer: Result<Put, Fault>) -> Result<Option<UpdateVersion>, Fault> {
    match answer {
        Ok(Put::Done(tag)) => Ok(Some(tag)),
        Ok(Put::Refused) => Ok(None),
        Err(fault) if fault.error.code() == ErrorCode::RateLimited => Ok(None),
        Err(fault) => Err(fault),
    }
}
