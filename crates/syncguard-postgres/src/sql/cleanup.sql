-- $1 storage key. Only the lock, never the counter; and a row that is in use is left alone.
DELETE FROM {locks} WHERE key {=} ANY (
  SELECT l.key FROM {locks} AS l
  WHERE l.key {=} $1 AND l.expires_at_ms {<=} ({now} {-} {stale}) AND {intact}
  FOR UPDATE SKIP LOCKED
)
