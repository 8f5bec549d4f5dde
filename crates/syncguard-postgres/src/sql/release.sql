-- $1 lock id, $2 deadline in milliseconds: a statement that comes to writing any later was given up by
-- its sender
WITH {settings},
-- Where another session has written the row meanwhile, its newest version is judged. Where it was only
-- held up, the time is read once more when the wait is over: false if the lock had expired by then.
-- The lock is live and the deadline is not over: one look at the clock for both.
released AS (
  DELETE FROM {locks} AS l USING settings
  WHERE l.lock_id {=} $1 AND {intact}
    AND ({now} {-} {tolerance}) {<} least(l.expires_at_ms, $2 {-} {tolerance_less_1})
  RETURNING l.expires_at_ms, {now} AS now_ms, {signal} AS is_told
)
SELECT l.expires_at_ms {>} (l.now_ms {-} {tolerance}) AS released, {no_record}, l.now_ms AS judged_at_ms,
  $1 AS asked
FROM released AS l
UNION ALL
SELECT NULL, {record}, {now}, $1 FROM {locks} AS l
WHERE l.lock_id {=} $1 AND NOT EXISTS (SELECT FROM released)
