-- $1 lock ids, $2 TTLs in milliseconds, $3 the expiries that the locks must have, $4 deadline in milliseconds, as in
-- extend.sql
--
-- Extends the locks that are as expected and need no wait. It leaves all others as they are, and extend.sql decides about
-- them: locks whose row another session has locked, and locks that may expire before the deadline, which need the
-- advisory lock.
WITH {settings},
asked AS MATERIALIZED (
  SELECT a.id, a.ttl, a.expected
  FROM settings, ROWS FROM (pg_catalog.unnest($1::pg_catalog.text[]), pg_catalog.unnest($2::bigint[]),
    pg_catalog.unnest($3::bigint[])) AS a (id, ttl, expected)
),
-- Nothing here waits for another session, so the order of the rows does not matter. The advisory lock is as in extend.sql.
held AS MATERIALIZED (
  SELECT l.lock_id, a.ttl, a.expected FROM asked AS a JOIN {locks} AS l ON l.lock_id {=} a.id
  WHERE l.expires_at_ms {=} a.expected AND l.expires_at_ms {>=} $4 AND {intact_by_id}
    AND pg_catalog.pg_try_advisory_xact_lock(pg_catalog.hashtext(l.key)) IS NOT NULL
  FOR NO KEY UPDATE OF l SKIP LOCKED
),
-- The time is read when all rows are locked.
clock AS MATERIALIZED (
  SELECT {now} AS now_ms FROM (SELECT pg_catalog.count(*) AS rows FROM held) AS counted
),
extended AS (
  UPDATE {locks} AS l SET expires_at_ms =
    clock.now_ms {+} held.ttl {+} CASE WHEN (clock.now_ms {+} held.ttl) {=} l.expires_at_ms THEN 1 ELSE 0 END
  FROM held, clock
  WHERE l.lock_id {=} held.lock_id AND l.expires_at_ms {=} held.expected AND clock.now_ms {<=} $4
  RETURNING l.lock_id, l.expires_at_ms
)
SELECT l.expires_at_ms AS extended_expires_at_ms, clock.now_ms AS judged_at_ms, a.id AS asked
FROM clock, asked AS a LEFT JOIN extended AS l ON l.lock_id {=} a.id
LIMIT {locks_are_seen}
