-- The usual acquire: the key has a counter and no lock. $1 lock id, $2 storage key, $3 fence key, $4 user key, $5 TTL in
-- milliseconds, $6 holder, $7 deadline in milliseconds. In any other case the statement grants nothing and returns no row,
-- and acquire.sql decides: the server sets up each part of a statement, also a part that it never runs, so this one costs
-- half of that one.
WITH
-- As in acquire.sql, the time is read after the wait for the advisory lock, and what was read before may be outdated.
turn AS MATERIALIZED (
  SELECT c.fence, {commits} AS commits, {waits} AS waits,
    pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtext($2)) AS turn, {now} AS now_ms
  FROM {fences} AS c
  WHERE c.fence_key {=} $3 AND c.fence {>=} 0 AND c.fence {<=} {highest_counter}
    AND NOT EXISTS (SELECT FROM {locks} AS l WHERE l.key {=} $2)
),
numbered AS (
  UPDATE {fences} AS c SET fence = c.fence {+} 1 FROM turn
  WHERE c.fence_key {=} $3 AND c.fence {=} turn.fence AND turn.now_ms {<=} $7
  RETURNING c.fence, turn.now_ms
)
INSERT INTO {locks} AS l (key, lock_id, expires_at_ms, acquired_at_ms, fence, user_key{holder_column})
SELECT $2, $1, numbered.now_ms {+} $5, numbered.now_ms, pg_catalog.lpad(numbered.fence::pg_catalog.text, 15, '0'), $4{holder_value}
FROM numbered
LIMIT coalesce({locks_are_seen}, {fences_are_seen})
ON CONFLICT (key) DO NOTHING
RETURNING l.expires_at_ms AS taken_expires_at_ms, l.fence AS taken_fence, l.acquired_at_ms AS judged_at_ms, $1 AS asked
