-- $1 lock id, $2 storage key. Gives back what nobody wants, and says whether it was alone: whoever
-- acquires this key holds the advisory lock until the commit is done, also while the commit waits for
-- a standby and nobody sees the row yet.
WITH {settings},
turn AS MATERIALIZED (
  SELECT pg_catalog.pg_try_advisory_xact_lock(pg_catalog.hashtext($2)) AS alone FROM settings
),
released AS (
  DELETE FROM {locks} AS l USING settings
  WHERE l.lock_id {=} $1 AND l.expires_at_ms {>} ({now} {-} {tolerance}) AND {intact}
  RETURNING {signal} AS is_told
)
SELECT turn.alone, EXISTS (SELECT FROM released) AS released, {now} AS answered_ms, $1 AS asked
FROM turn
