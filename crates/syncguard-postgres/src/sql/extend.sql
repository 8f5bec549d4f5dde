-- $1 lock id, $2 TTL in milliseconds, $3 the expiry that the lock must have or NULL, $4 deadline in
-- milliseconds: after it, the sender has given the statement up, and the statement writes nothing
WITH {settings},
stored AS MATERIALIZED (
  SELECT {record}, {now} AS now_ms FROM {locks} AS l WHERE l.lock_id {=} $1
),
-- A TypeScript acquire reads the row without locking it and overwrites it later, under this advisory lock.
-- Without the advisory lock, it could overwrite an extend whose commit is in progress while the old expiry
-- passes: two holders. That cannot be if the lock lives until the deadline: nobody relies on an extend that is
-- committed later, and until then the old expiry keeps others out. So an early extend does not wait for the advisory lock,
-- which any role of the database could keep from it. It takes the lock if it is free: a clean-up then sees that an extend
-- is not committed yet.
turn AS MATERIALIZED (
  SELECT CASE WHEN l.expires_at_ms {<} $4
    THEN pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtext(l.key)) IS NOT NULL
    ELSE pg_catalog.pg_try_advisory_xact_lock(pg_catalog.hashtext(l.key)) END AS is_taken
  FROM settings, stored AS l
  WHERE l.expires_at_ms {>} (l.now_ms {-} {tolerance}) AND {intact_by_id}
),
-- The row, after other sessions have unlocked it. The time is read when all waiting is over.
held AS MATERIALIZED (
  SELECT l.expires_at_ms, turn.is_taken FROM {locks} AS l, turn WHERE l.lock_id {=} $1
  FOR NO KEY UPDATE OF l
),
clock AS MATERIALIZED (
  SELECT {now} AS now_ms, is_taken FROM held
),
extended AS (
  -- Each extend changes the expiry, so that an older extend that expects the old expiry changes nothing.
  UPDATE {locks} AS l SET expires_at_ms =
    clock.now_ms {+} $2 {+} CASE WHEN (clock.now_ms {+} $2) {=} l.expires_at_ms THEN 1 ELSE 0 END
  FROM clock
  WHERE l.lock_id {=} $1 AND l.expires_at_ms {>} (clock.now_ms {-} {tolerance}) AND {intact_by_id}
    -- Another extend may have shortened the lock since the snapshot.
    AND (clock.is_taken OR l.expires_at_ms {>=} $4)
    AND clock.now_ms {<=} $4 AND ($3 IS NULL OR l.expires_at_ms {=} $3)
  RETURNING l.expires_at_ms, clock.now_ms
)
SELECT l.expires_at_ms AS extended_expires_at_ms, NULL::bigint AS held_expires_at_ms, {no_record},
  NULL::bigint AS now_ms, l.now_ms AS judged_at_ms, $1 AS asked
FROM extended AS l
UNION ALL
SELECT NULL, CASE WHEN held.expires_at_ms {>} (clock.now_ms {-} {tolerance}) THEN held.expires_at_ms END,
  {record}, coalesce(clock.now_ms, l.now_ms), clock.now_ms, $1
FROM stored AS l LEFT JOIN (held CROSS JOIN clock) ON true
WHERE NOT EXISTS (SELECT FROM extended)
LIMIT {locks_are_seen}
