-- $1 lock id, $2 deadline in milliseconds: after it, the sender has given the statement up, and the statement writes
-- nothing
WITH {settings},
-- If another session has written the row meanwhile, its newest version is checked. If another session only locked
-- the row, the time is read again after the wait: the answer is false if the lock had expired by then.
-- One reading of the clock checks both that the lock is live and that the deadline has not passed.
released AS (
  DELETE FROM {locks} AS l USING settings
  WHERE l.lock_id {=} $1 AND {intact_by_id}
    AND ({now} {-} {tolerance}) {<} least(l.expires_at_ms, $2 {-} {tolerance_less_1})
  RETURNING l.expires_at_ms, {now} AS now_ms, {signal} AS is_told
)
SELECT l.expires_at_ms {>} (l.now_ms {-} {tolerance}) AS released, {no_record}, l.now_ms,
  l.now_ms AS judged_at_ms, $1 AS asked
FROM released AS l
UNION ALL
SELECT NULL, {record}, {now}, {now}, $1 FROM {locks} AS l
WHERE l.lock_id {=} $1 AND NOT EXISTS (SELECT FROM released)
LIMIT {locks_are_seen}
