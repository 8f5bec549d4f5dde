-- $1 lock id
WITH {settings},
-- Where another session has written the row meanwhile, its newest version is judged. Where it was only
-- held up, the time is read once more when the wait is over: false if the lock had expired by then.
released AS (
  DELETE FROM {locks} AS l USING settings
  WHERE l.lock_id = $1 AND l.expires_at_ms > {now} - {tolerance} AND {intact}
  RETURNING l.expires_at_ms > {now} - {tolerance} AS in_time
)
SELECT in_time AS released, {no_record} FROM released
UNION ALL
SELECT false, {record}, {now} FROM {locks} AS l
WHERE l.lock_id = $1 AND NOT EXISTS (SELECT FROM released)
