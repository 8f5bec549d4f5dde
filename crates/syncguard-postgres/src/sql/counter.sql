-- $1 fence key. The time is not used: a pooler that sends reads to a standby keeps a statement with a volatile function
-- at the primary, and a standby knows an old counter.
SELECT c.fence, {now} AS now_ms FROM {fences} AS c WHERE c.fence_key {=} $1
LIMIT {fences_are_seen}
