//! The details of a live lock.

use syncguard_core::{Key, LockError, LockId, LockInfo};

use crate::driver::Call;
use crate::everywhere::{self, Found};
use crate::inner::Inner;
use crate::names::Section;
use crate::{reply, scripts};

pub(crate) async fn by_key(inner: &Inner, key: &Key) -> Result<Option<LockInfo>, LockError> {
    inner.refuse_node_of_cluster().await?;
    let section = inner.layout.section_of(key)?;
    let name = section.lock_name(key)?;
    let call = || {
        Ok(Call { script: &scripts::LOOKUP_BY_KEY, keys: [name.as_str().into()], arguments: [] })
    };
    reply::found(inner.connections.read(section.at(), call).await?, &name)
}

pub(crate) async fn by_lock_id(
    inner: &Inner,
    lock_id: LockId,
    hint: Option<&Key>,
) -> Result<Option<LockInfo>, LockError> {
    everywhere::find(inner, hint, |section| attempt(inner, section, lock_id)).await
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
) -> Result<Option<LockInfo>, LockError> {
    let name = section.index_name(&lock_id)?.into_text();
    let call = || {
        Ok(Call {
            script: &scripts::LOOKUP_BY_ID,
            keys: [name.as_ref().into()],
            arguments: [lock_id.expose().into()],
        })
    };
    reply::found(inner.connections.read(section.at(), call).await?, &name)
}
