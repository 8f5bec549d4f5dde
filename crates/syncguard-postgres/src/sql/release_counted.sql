-- Releases a lock and raises the counter of its key: $1 lock id, $2 storage key, $3 fence key, $4 user key, $5 the least
-- value of the counter afterwards, $6 deadline in milliseconds: after it, the sender has given the statement up, and the
-- statement writes nothing
WITH {settings},
-- As in release.sql. The counter comes after the row of the lock, as in acquire.sql.
released AS (
  DELETE FROM {locks} AS l USING settings
  WHERE l.lock_id {=} $1 AND {intact_by_id}
    AND ({now} {-} {tolerance}) {<} least(l.expires_at_ms, $6 {-} {tolerance_less_1})
  RETURNING l.key, l.expires_at_ms, {now} AS now_ms, {signal} AS is_told
),
raised AS (
  INSERT INTO {fences} AS c (fence_key, fence, key_debug)
  SELECT $3, $5, $4 FROM released AS l
  WHERE l.key {=} $2 AND l.expires_at_ms {>} (l.now_ms {-} {tolerance})
  ON CONFLICT (fence_key) DO UPDATE SET fence = greatest(c.fence, excluded.fence)
    WHERE c.fence {>=} 0
)
SELECT l.expires_at_ms {>} (l.now_ms {-} {tolerance}) AS released, {no_record}, l.now_ms,
  l.now_ms AS judged_at_ms, $1 AS asked
FROM released AS l
UNION ALL
SELECT NULL, {record}, {now}, {now}, $1 FROM {locks} AS l
WHERE l.lock_id {=} $1 AND NOT EXISTS (SELECT FROM released)
LIMIT coalesce({locks_are_seen}, {fences_are_seen})
