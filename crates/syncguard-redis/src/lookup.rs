//! Looking up a live lock by key or by lock id.

use fred::types::Value;
use syncguard_core::{Key, LockError, LockId, LockInfo};

use crate::client::Connections;
use crate::driver::{At, Call};
use crate::everywhere::{self, Found};
use crate::inner::Inner;
use crate::names::Section;
use crate::{reply, scripts};

pub(crate) async fn by_key(inner: &Inner, key: &Key) -> Result<Option<LockInfo>, LockError> {
    inner.refuse_node_of_cluster().await?;
    let section = inner.layout.section_of(key)?;
    let name = section.lock_name(key)?;
    reply::found(at(&inner.connections, section.at(), &name).await?, &name)
}

/// Asks for the lock with this name.
pub(crate) async fn at(connections: &Connections, at: At, name: &str) -> Result<Value, LockError> {
    let script = &scripts::LOOKUP_BY_KEY;
    connections.read(at, || Ok(Call { script, keys: [name.into()], arguments: [] })).await
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
