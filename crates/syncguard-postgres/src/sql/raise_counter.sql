-- $1 fence key, $2 user key, $3 the least value of the counter afterwards. The statement needs no deadline: late or
-- twice, it has the same effect. An acquire that read the counter before finds it changed, and begins again.
WITH {settings}
INSERT INTO {fences} AS c (fence_key, fence, key_debug)
SELECT $1, $3, $2 FROM settings LIMIT {fences_are_seen}
ON CONFLICT (fence_key) DO UPDATE SET fence = greatest(c.fence, excluded.fence)
  WHERE c.fence {>=} 0
RETURNING c.fence
