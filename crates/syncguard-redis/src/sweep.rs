//! A sweep over the keyspace, which puts the names of records in order: Redis itself keeps no order.

use std::collections::BTreeSet;
use std::sync::Arc;

use fred::types::Value;
use fred::types::config::Server;
use syncguard_core::inventory::ListRequest;
use syncguard_core::{ErrorCode, LockError};

use crate::driver::Target;
use crate::inner::Inner;
use crate::record_name::{RecordKind, RecordName};
use crate::reply;
use crate::servers::{of_sections, one_section_each};

/// The largest number of names that a sweep keeps.
const MAX_NAMES: usize = 100_000;

/// The number of names that one `SCAN` looks at. Other commands run between two `SCAN`s.
const COUNT: &str = "1000";

/// The result of a sweep, in the order of the keys.
struct Sweep {
    kind: RecordKind,
    prefix: String,
    names: Vec<RecordName>,
    /// True if there are more names after these.
    is_truncated: bool,
}

/// The names of a page, and the request for the next page.
pub(crate) async fn page(
    inner: &Inner,
    kind: RecordKind,
    request: &ListRequest,
) -> Result<(Vec<RecordName>, Option<ListRequest>), LockError> {
    let after = request.expose_place().unwrap_or_default();
    let behind = |sweep: &Sweep| sweep.names.partition_point(|record| record.user_key() <= after);
    let kept = request.kept::<Sweep>().filter(|sweep| {
        let is_the_same = sweep.kind == kind && sweep.prefix == request.expose_prefix();
        is_the_same && (!sweep.is_truncated || behind(sweep) < sweep.names.len())
    });
    let sweep = match kept {
        Some(sweep) => sweep,
        None => {
            Arc::new(sweep_the_same_servers(inner, kind, request.expose_prefix(), after).await?)
        }
    };
    let rest = &sweep.names[behind(&sweep)..];
    let page: Vec<RecordName> = rest.iter().take(request.page_size()).cloned().collect();
    let is_last = page.len() == rest.len() && !sweep.is_truncated;
    let next = page.last().filter(|_| !is_last).map(|last| {
        let sweep: Arc<Sweep> = Arc::clone(&sweep);
        request.behind(last.user_key()).keeping(sweep)
    });
    Ok((page, next))
}

/// Sweeps, and starts again after a failover or if a slot has moved: Redis promises to show each key that exists
/// from the beginning of a sweep to its end, but only if the sweep stays on one server.
async fn sweep_the_same_servers(
    inner: &Inner,
    kind: RecordKind,
    prefix: &str,
    after: &str,
) -> Result<Sweep, LockError> {
    const TRIES: usize = 3;
    inner.refuse_cluster_node().await?;
    for _ in 0..TRIES {
        let before = servers(inner).await;
        let found = sweep(inner, kind, prefix, after).await?;
        if before == servers(inner).await {
            return Ok(found);
        }
    }
    Err(LockError::new(
        ErrorCode::ServiceUnavailable,
        "a server was replaced by another one, or shards have moved, during each sweep over the keys",
    ))
}

/// The node of each section, and the run id of each server; `None` if the user may not ask.
async fn servers(inner: &Inner) -> (Vec<Option<Server>>, Vec<Option<String>>) {
    let Inner { connections, layout, .. } = inner;
    let mut names = Vec::new();
    for target in one_section_each(connections, layout) {
        names.push(server(inner, target).await);
    }
    let nodes = of_sections(connections, layout).into_iter().map(|(_, server)| server);
    (nodes.collect(), names)
}

async fn server(inner: &Inner, target: Target) -> Option<String> {
    let answer = inner.connections.command(target, "INFO", &["server"]).await.ok()?;
    let text = answer.as_str()?;
    let line = text.lines().find_map(|line| line.strip_prefix("run_id:"))?;
    Some(line.trim().to_owned())
}

/// Sweeps over all servers, one after the other.
async fn sweep(
    inner: &Inner,
    kind: RecordKind,
    prefix: &str,
    after: &str,
) -> Result<Sweep, LockError> {
    let (mut names, mut is_truncated) = (BTreeSet::new(), false);
    for target in one_section_each(&inner.connections, &inner.layout) {
        is_truncated |= sweep_one(inner, target, (kind, prefix, after), &mut names).await?;
    }
    let names = names.into_iter().collect();
    Ok(Sweep { kind, prefix: prefix.to_owned(), names, is_truncated })
}

/// Adds the names of one server, and returns whether some had to be dropped.
async fn sweep_one(
    inner: &Inner,
    target: Target,
    (kind, prefix, after): (RecordKind, &str, &str),
    names: &mut BTreeSet<RecordName>,
) -> Result<bool, LockError> {
    let pattern = inner.layout.pattern(kind, prefix);
    let mut is_truncated = false;
    let mut cursor = "0".to_owned();
    loop {
        let words = [cursor.as_str(), "MATCH", &pattern, "COUNT", COUNT];
        let answer = inner.connections.command(target, "SCAN", &words).await?;
        let (next, found) = scanned(&answer).ok_or_else(reply::unintelligible)?;
        for name in found {
            // A name of this library is always UTF-8.
            let Some(name) = name.as_str() else { continue };
            let Some(record) = inner.layout.record_name(kind, &name) else { continue };
            if record.user_key() <= after {
                continue;
            }
            names.insert(record);
            if names.len() > MAX_NAMES {
                names.pop_last();
                is_truncated = true;
            }
        }
        if next == "0" {
            return Ok(is_truncated);
        }
        cursor = next;
    }
}

/// Reads the answer to `SCAN`: the next cursor, and names.
fn scanned(answer: &Value) -> Option<(String, &[Value])> {
    let Value::Array(parts) = answer else { return None };
    let [cursor, Value::Array(names)] = parts.as_slice() else { return None };
    Some((cursor.as_str()?.into_owned(), names))
}
