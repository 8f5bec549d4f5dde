-- $1 fence key
SELECT c.fence FROM {fences} AS c WHERE c.fence_key {=} $1
LIMIT {fences_are_seen}
