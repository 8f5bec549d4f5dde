//! `syncguard doctor`: checks whether a store is safe for locks, and says what to change.

#[cfg(all(feature = "tls", any(feature = "etcd", feature = "postgres", feature = "redis")))]
mod certificate;
mod cost;
#[cfg(feature = "etcd")]
mod etcd;
mod examination;
mod finding;
#[cfg(feature = "firestore")]
mod firestore;
mod format;
#[cfg(feature = "object-store")]
mod object_store;
#[cfg(feature = "postgres")]
mod postgres;
mod probe;
#[cfg(feature = "redis")]
mod redis;
mod report;
#[cfg(feature = "ticks")]
mod ticks;

use std::mem;

use clap::Args;
use syncguard::LockBackend as _;

use self::examination::Examination;
use self::finding::{Finding, Level};
use self::report::Report;
use crate::exit::{Failure, Status};
use crate::output::print_as;
use crate::store::Store;

/// Checks whether a store is safe for locks, whether this user may do what is needed, and what it
/// costs
///
/// The doctor acquires and releases the lock `syncguard-doctor` several times, and changes nothing
/// else. It ends with status 78 if a finding is red and with 0 if not, so it can be a readiness
/// check.
#[derive(Args)]
pub(crate) struct Options {
    /// The store [default: as for the other commands]
    #[arg(value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Prints one line of JSON
    #[arg(long)]
    json: bool,
    /// Ends with status 78 on yellow findings, too
    #[arg(long)]
    strict: bool,
    /// How often the lock is taken and released to measure the cost
    #[arg(long, value_name = "N", default_value_t = 50)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: u32,
}

pub(crate) async fn run(options: &Options, store: &Store) -> Result<Status, Failure> {
    let mut report = Report::default();
    // To examine the file would make it.
    if let Some(path) = store.missing_file().filter(|_| !store.is_named()) {
        report.backend = "sqlite";
        report.findings.push(Finding::of_unused_default(&path));
        return end(options, &report);
    }
    match examine(store).await {
        Ok(mut examination) => {
            report.backend = examination.backend.capabilities().backend;
            report.findings = mem::take(&mut examination.findings);
            let refuses =
                |report: &Report| report.findings.iter().any(|finding| finding.is_refusal);
            // One cause is reported once.
            if !refuses(&report) {
                report.findings.push(probe::permissions(&examination).await);
            }
            // Only operations that work are measured, and only locks that work can be waited for.
            if refuses(&report) {
                report.findings.retain(|finding| finding.about != "signals");
            } else {
                let cost =
                    cost::measure(&examination.backend, options.rounds, examination.round_trips);
                match cost.await {
                    Ok(cost) => report.cost = Some(cost),
                    Err(error) => {
                        let refused = probe::refused_later(&examination, &error);
                        report.findings.retain(|finding| finding.about != "permissions");
                        report.findings.push(refused.ok_or(error)?);
                    }
                }
                #[cfg(feature = "ticks")]
                report.findings.extend(ticks::findings(&examination.backend).await);
            }
            #[cfg(feature = "ticks")]
            report.findings.push(Finding::of_zones());
        }
        // An unreachable store is not reported as a finding: a script that waits for the store expects the usual
        // status.
        Err(failure) if failure.status() == Status::UNAVAILABLE => return Err(failure),
        Err(failure) => {
            let finding = Finding::of_connecting(&failure);
            // A user that Redis knows and forbids everything.
            #[cfg(feature = "redis")]
            let finding = {
                let is_forbidden = finding.says.contains("access rules");
                finding.with_mend(is_forbidden.then(|| redis::access(store.expose())).flatten())
            };
            report.findings.push(finding);
        }
    }
    #[cfg(all(feature = "tls", any(feature = "etcd", feature = "postgres", feature = "redis")))]
    report.findings.extend(certificate::finding(store.expose()));
    end(options, &report)
}

fn end(options: &Options, report: &Report) -> Result<Status, Failure> {
    print_as(options.json, || format::as_json(report), || format::as_text(report))?;
    let worst = report.worst();
    let is_bad = worst == Level::Red || (options.strict && worst == Level::Yellow);
    Ok(if is_bad { Status::CONFIGURATION } else { Status::SUCCESS })
}

async fn examine(store: &Store) -> Result<Examination, Failure> {
    let url = store.expose();
    match url.split(':').next().unwrap_or_default() {
        #[cfg(feature = "etcd")]
        "etcd" | "etcds" => etcd::examine(url).await,
        #[cfg(feature = "firestore")]
        "firestore" => firestore::examine(url).await,
        #[cfg(feature = "object-store")]
        "az" | "gs" | "s3" => object_store::examine(url).await,
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => postgres::examine(url).await,
        #[cfg(feature = "redis")]
        scheme if scheme.starts_with("redis") || scheme.starts_with("valkey") => {
            redis::examine(url).await
        }
        // The error of `connect` says what is wrong with the URL. A look at a missing file makes it, so that it can be examined.
        scheme => {
            let backend = match scheme {
                "sqlite" => syncguard::connect(url).await?,
                _ => store.connect().await?,
            };
            let findings = examination::health(&backend).await?;
            Ok(Examination { backend, findings, round_trips: (0, 0), access: None })
        }
    }
}
