//! Records of other programs in the database of the locks.

use fred::types::Value;
use syncguard_core::LockError;

use crate::inner::Inner;
use crate::servers::one_section_each;

/// Looks at the first names of each server that has locks.
pub(crate) async fn has_any(inner: &Inner) -> Result<bool, LockError> {
    const NAMES: [&str; 3] = ["0", "COUNT", "1000"];
    let lead = inner.layout.lead();
    for target in one_section_each(&inner.connections, &inner.layout) {
        let answer = inner.connections.command(target, "SCAN", &NAMES).await?;
        let Value::Array(parts) = &answer else { continue };
        let [_, Value::Array(names)] = parts.as_slice() else { continue };
        if names.iter().any(|name| name.as_str().is_none_or(|name| !name.starts_with(&lead))) {
            return Ok(true);
        }
    }
    Ok(false)
}
