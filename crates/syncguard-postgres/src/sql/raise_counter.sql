-- $1 fence key, $2 user key, $3 what the counter is to be at the least. It needs no deadline: carried out
-- late, or twice, it does nothing but what was asked for. An acquire that has read the counter before
-- finds it changed, and begins anew.
WITH {settings}
INSERT INTO {fences} AS c (fence_key, fence, key_debug)
SELECT $1, $3, $2 FROM settings
ON CONFLICT (fence_key) DO UPDATE SET fence = greatest(c.fence, excluded.fence)
  WHERE c.fence {>=} 0
RETURNING c.fence
