//! Examines Redis and Valkey.

mod typed;

use syncguard::DynBackend;
use syncguard::authoring::backend_url::BackendUrl;
use syncguard::redis::RedisBackend;

use self::typed::Typed;
use super::examination::{self, Examination};
use crate::exit::Failure;

pub(super) async fn examine(url: &str) -> Result<Examination, Failure> {
    let typed = Typed::for_store(&BackendUrl::parse(url)?)?;
    let backend = DynBackend::new(RedisBackend::connect(url).await?);
    let findings = examination::health(&backend).await?.into_iter();
    let findings = findings.map(|finding| {
        let mend = finding.mend.as_deref().map(|mend| typed.complete(mend));
        finding.with_mend(mend)
    });
    let findings = findings.collect();
    Ok(Examination { backend, findings, round_trips: (1, 1), access: Some(typed.allow_locks()) })
}

/// The rights that locks need, for a user that may not even connect.
pub(super) fn access(url: &str) -> Option<String> {
    Some(Typed::for_store(&BackendUrl::parse(url).ok()?).ok()?.allow_locks())
}
