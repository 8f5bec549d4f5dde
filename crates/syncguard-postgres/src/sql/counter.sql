-- $1 fence key
SELECT c.fence FROM {fences} AS c WHERE c.fence_key {=} $1 AND {sees_fences}
