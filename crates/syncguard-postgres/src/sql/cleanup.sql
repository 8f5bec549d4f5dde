-- $1 storage key. Deletes the lock, never the counter, and skips a row that is in use.
DELETE FROM {locks} WHERE key {=} ANY (
  SELECT l.key FROM {locks} AS l
  WHERE l.key {=} $1 AND l.expires_at_ms {<=} ({now} {-} {stale}) AND {intact}
  FOR UPDATE SKIP LOCKED
)
