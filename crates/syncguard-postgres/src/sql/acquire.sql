-- $1 lock id, $2 storage key, $3 fence key, $4 user key, $5 TTL in milliseconds, $6 holder, the fence window:
-- $7 the least fence, $8 the limit of the counter, $9 the time in milliseconds from which on the lock may be
-- granted; and $10 deadline in milliseconds: after it, the sender has given the statement up, and the statement
-- writes nothing
WITH
-- The lock in the snapshot. If it is live, nothing below is carried out: a contended acquire takes no lock,
-- waits for nothing and writes nothing.
stored AS MATERIALIZED (
  SELECT {record}, {now} AS now_ms, {holder} AS holder FROM {locks} AS l WHERE l.key {=} $2
),
counter AS MATERIALIZED (
  SELECT fence FROM {fences} WHERE fence_key {=} $3
),
{settings},
-- The advisory lock that the TypeScript library also takes: one session at a time writes this key, until its
-- commit. The rows read above may be outdated by now, so everything below checks again.
turn AS MATERIALIZED (
  SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtext($2)) FROM settings
  WHERE NOT EXISTS (SELECT FROM stored AS l
      WHERE l.expires_at_ms {>} (l.now_ms {-} {tolerance}) OR NOT {intact})
    AND NOT EXISTS (SELECT FROM counter
      WHERE fence {<} 0 OR fence {>} {highest_counter} OR fence {>=} $8)
),
-- The newest version of the expired row, after any session that was writing it has finished. An extend in
-- progress may have revived the lock, a clean-up may have deleted it.
expired AS MATERIALIZED (
  SELECT l.key FROM {locks} AS l, turn
  WHERE l.key {=} $2 AND l.expires_at_ms {<=} ({now} {-} {tolerance}) AND {intact}
  FOR NO KEY UPDATE OF l
),
-- Only a transaction that called `check_fence` can still lock the row, for any time. Then the lock counts as
-- held, and the acquire does not wait.
vacant AS MATERIALIZED (
  SELECT l.key FROM {locks} AS l, expired WHERE l.key {=} expired.key
  FOR UPDATE OF l SKIP LOCKED
),
-- The time is read when all waiting is over.
time AS MATERIALIZED (
  SELECT {now} AS now_ms FROM turn
  WHERE NOT EXISTS (SELECT FROM stored) OR EXISTS (SELECT FROM vacant)
),
-- Each acquisition raises the counter. If the counter differs from the snapshot, the key was acquired
-- meanwhile, and nothing is written.
numbered AS (
  INSERT INTO {fences} AS c (fence_key, fence, key_debug)
  SELECT $3, $7, $4 FROM time WHERE now_ms {<=} $10 AND now_ms {>=} $9
  ON CONFLICT (fence_key) DO UPDATE SET fence = greatest(c.fence {+} 1, excluded.fence)
    WHERE c.fence {=} coalesce((SELECT counter.fence FROM counter), 0)
  RETURNING c.fence
),
taken AS (
  INSERT INTO {locks} AS l (key, lock_id, expires_at_ms, acquired_at_ms, fence, user_key{holder_column})
  SELECT $2, $1, time.now_ms {+} $5, time.now_ms, pg_catalog.lpad(numbered.fence::pg_catalog.text, 15, '0'), $4{holder_value}
  FROM numbered, time
  ON CONFLICT (key) DO UPDATE SET
    lock_id = excluded.lock_id,
    expires_at_ms = excluded.expires_at_ms,
    acquired_at_ms = excluded.acquired_at_ms,
    fence = excluded.fence,
    user_key = excluded.user_key{holder_set}
    WHERE l.expires_at_ms {<=} (excluded.acquired_at_ms {-} {tolerance})
  RETURNING l.expires_at_ms, l.fence
)
SELECT
  taken.expires_at_ms AS taken_expires_at_ms,
  taken.fence AS taken_fence,
  (SELECT counter.fence FROM counter) AS counter,
  CASE
    WHEN taken.expires_at_ms IS NOT NULL THEN NULL
    WHEN EXISTS (SELECT FROM expired) AND NOT EXISTS (SELECT FROM vacant) THEN 'pinned'
    -- The counter was moved and the lock is not there: only a trigger does that.
    WHEN EXISTS (SELECT FROM numbered) THEN 'dropped'
  END AS obstacle,
  {record},
  l.now_ms,
  l.holder,
  (SELECT time.now_ms FROM time) AS judged_at_ms,
  $1 AS asked
FROM (VALUES (1)) AS one
LEFT JOIN taken ON true
LEFT JOIN stored AS l ON true
LIMIT coalesce({locks_are_seen}, {fences_are_seen})
