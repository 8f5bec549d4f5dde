//! Examines etcd.

use syncguard::DynBackend;
use syncguard::authoring::backend_url::BackendUrl;
use syncguard::etcd::{EtcdBackend, EtcdOptions};

use super::examination::{self, Examination};
use super::finding::Finding;
use crate::commands::listing;
use crate::exit::Failure;

pub(super) async fn examine(url: &str) -> Result<Examination, Failure> {
    let backend = EtcdBackend::connect(url).await?;
    let backend = DynBackend::new(backend);
    let findings = examination::health(&backend).await?.into_iter();
    let mut findings: Vec<Finding> = findings
        .map(|finding| match finding.about {
            "cluster" => finding.with_mend(Some(access(url))),
            _ => finding,
        })
        .collect();
    findings.extend(records(&backend).await);
    Ok(Examination { backend, findings, round_trips: (1, 1), access: Some(access(url)) })
}

/// The role that gives a user the rights that locks need.
fn access(url: &str) -> String {
    let prefix = BackendUrl::parse(url).ok().and_then(|url| {
        let (_, rest) = url.base().split_once("://")?;
        let (_, path) = rest.split_once('/')?;
        (!path.is_empty()).then(|| path.to_owned())
    });
    let prefix = prefix.unwrap_or_else(|| EtcdOptions::DEFAULT_KEY_PREFIX.to_owned());
    format!("etcdctl role grant-permission ROLE --prefix=true readwrite {prefix}/")
}

/// Records of locks and of counters that cannot be read. If nothing can be listed, the access says so.
async fn records(backend: &DynBackend) -> Option<Finding> {
    let mut corrupt = listing::read(backend, "").await.ok()?.corrupt;
    corrupt.extend(listing::counters(backend, |_| {}).await.ok()?);
    let first = corrupt.first()?;
    let says = format!(
        "{} records cannot be read, or are too large; the first has the hash {first}",
        corrupt.len()
    );
    Some(Finding::yellow(
        "records",
        says,
        "find out what else writes below the prefix, and delete its records",
    ))
}
