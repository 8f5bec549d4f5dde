-- $1 lock id, $2 TTL in milliseconds, $3 the expiry that the lock must have or NULL, $4 deadline in
-- milliseconds: a statement that comes to writing any later was given up by its sender
WITH {settings},
stored AS MATERIALIZED (
  SELECT {record}, {now} AS now_ms FROM {locks} AS l WHERE l.lock_id {=} $1
),
-- A TypeScript acquire reads the row without locking it and overwrites it later, all under this
-- advisory lock. Without it, an extend that is being committed while the old expiry passes could be
-- overwritten: two holders.
turn AS MATERIALIZED (
  SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtext(l.key)) FROM settings, stored AS l
  WHERE l.expires_at_ms {>} (l.now_ms {-} {tolerance}) AND {intact}
),
-- The row, once nobody else holds it up. The time is read when all waiting is over.
held AS MATERIALIZED (
  SELECT l.expires_at_ms FROM {locks} AS l, turn WHERE l.lock_id {=} $1
  FOR NO KEY UPDATE OF l
),
clock AS MATERIALIZED (
  SELECT {now} AS now_ms FROM held
),
extended AS (
  -- Each extend changes the expiry, so that an older one that knows the old expiry comes too late.
  UPDATE {locks} AS l SET expires_at_ms =
    clock.now_ms {+} $2 {+} CASE WHEN (clock.now_ms {+} $2) {=} l.expires_at_ms THEN 1 ELSE 0 END
  FROM clock
  WHERE l.lock_id {=} $1 AND l.expires_at_ms {>} (clock.now_ms {-} {tolerance}) AND {intact}
    AND clock.now_ms {<=} $4 AND ($3 IS NULL OR l.expires_at_ms {=} $3)
  RETURNING l.expires_at_ms, clock.now_ms
)
SELECT l.expires_at_ms AS extended_expires_at_ms, NULL::bigint AS held_expires_at_ms, {no_record},
  NULL::bigint, l.now_ms AS judged_at_ms, $1 AS asked
FROM extended AS l
UNION ALL
SELECT NULL, CASE WHEN held.expires_at_ms {>} (clock.now_ms {-} {tolerance}) THEN held.expires_at_ms END,
  {record}, coalesce(clock.now_ms, l.now_ms), clock.now_ms, $1
FROM stored AS l LEFT JOIN (held CROSS JOIN clock) ON true
WHERE NOT EXISTS (SELECT FROM extended)
