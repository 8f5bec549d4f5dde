-- $1 lock id, $2 deadline in milliseconds: a statement that comes to writing any later was given up by
-- its sender
WITH {settings},
-- Where another session has written the row meanwhile, its newest version is judged. Where it was only
-- held up, the time is read once more when the wait is over: false if the lock had expired by then.
released AS (
  DELETE FROM {locks} AS l USING settings
  WHERE l.lock_id = $1 AND l.expires_at_ms > {now} - {tolerance} AND {intact} AND {now} <= $2
  RETURNING l.expires_at_ms > {now} - {tolerance} AS in_time
)
SELECT in_time AS released, {no_record}, false AS late, {now} AS answered_ms FROM released
UNION ALL
SELECT false, {record}, {now}, {now} > $2 AND l.expires_at_ms > {now} - {tolerance}, {now}
FROM {locks} AS l
WHERE l.lock_id = $1 AND NOT EXISTS (SELECT FROM released)
