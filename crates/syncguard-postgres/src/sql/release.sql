-- $1 lock id
WITH {settings},
-- Where the row is held up by another session, its newest version is judged, at the time the wait is
-- over.
released AS (
  DELETE FROM {locks} AS l USING settings
  WHERE l.lock_id = $1 AND l.expires_at_ms > {now} - {tolerance} AND {intact}
  RETURNING 1
)
SELECT true AS released, {no_record} FROM released
UNION ALL
SELECT false, {record}, {now} FROM {locks} AS l
WHERE l.lock_id = $1 AND NOT EXISTS (SELECT FROM released)
