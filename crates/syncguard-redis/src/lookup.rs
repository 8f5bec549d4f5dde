//! Looking up a live lock by key or by lock id.

use syncguard_core::{Key, LockError, LockId, LockInfo};

use crate::driver::Call;
use crate::find_by_id::{self, Found};
use crate::inner::Inner;
use crate::names::Section;
use crate::{reply, scripts};

pub(crate) async fn by_key(inner: &Inner, key: &Key) -> Result<Option<LockInfo>, LockError> {
    inner.refuse_cluster_node().await?;
    let section = inner.layout.section_of(key)?;
    let name = section.lock_name(key)?;
    let answer =
        inner.connections.read(section.target(), || Ok(scripts::lookup_by_key(&name))).await?;
    reply::found(answer, Some(section), &name)
}

pub(crate) async fn by_lock_id(
    inner: &Inner,
    lock_id: LockId,
    hint: Option<&Key>,
) -> Result<Option<LockInfo>, LockError> {
    find_by_id::find(inner, hint, |section| attempt(inner, section, lock_id, hint)).await
}

impl Found for Option<LockInfo> {
    fn is_found(&self) -> bool {
        self.is_some()
    }
}

async fn attempt(
    inner: &Inner,
    section: &Section,
    lock_id: LockId,
    hint: Option<&Key>,
) -> Result<Option<LockInfo>, LockError> {
    let call = || {
        let (index, lock) = find_by_id::names(section, &lock_id, hint)?;
        let call = Call::new(&scripts::LOOKUP_BY_ID).keys([index]).keys(lock);
        Ok(call.arguments([lock_id.expose().into()]))
    };
    let answer = inner.connections.read(section.target(), call).await?;
    reply::found_by_id(answer, section, &section.index_name(&lock_id)?)
}
