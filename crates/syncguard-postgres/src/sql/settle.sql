-- $1 lock id, $2 storage key. Releases a lock whose caller is gone, and tells if no session was acquiring the key.
-- A session that acquires it holds the advisory lock until the commit is done, even while the commit waits for a
-- standby and other sessions do not see the row yet.
WITH {settings},
turn AS MATERIALIZED (
  SELECT pg_catalog.pg_try_advisory_xact_lock(pg_catalog.hashtext($2)) AS alone FROM settings
),
released AS (
  DELETE FROM {locks} AS l USING settings
  WHERE l.lock_id {=} $1 AND l.expires_at_ms {>} ({now} {-} {tolerance}) AND {intact_by_id}
  RETURNING {signal} AS is_told
)
SELECT turn.alone, EXISTS (SELECT FROM released) AS released, {now} AS answered_ms, $1 AS asked
FROM turn
LIMIT {locks_are_seen}
