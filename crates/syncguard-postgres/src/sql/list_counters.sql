-- The parameters and the two queries are those of list_locks.sql, with the names of counters. The time
-- is there for the reason in counter.sql.
WITH bytes AS MATERIALIZED (
  SELECT sample.fence_key {<} 'a' AS ordered
  FROM (SELECT fence_key FROM {fences} WHERE false UNION ALL SELECT 'B') AS sample
)
(
  SELECT c.fence_key, c.fence, {now} AS now_ms FROM {fences} AS c
  WHERE (SELECT ordered FROM bytes) AND c.fence_key {>=} $1 AND c.fence_key {<>} $2 AND c.fence_key {<} $3
  ORDER BY c.fence_key LIMIT $5
)
UNION ALL
(
  SELECT c.fence_key, c.fence, {now} AS now_ms FROM {fences} AS c
  WHERE NOT (SELECT ordered FROM bytes) AND c.fence_key {>} $2
    AND pg_catalog.left(c.fence_key, pg_catalog.length($4)) {=} $4
  ORDER BY c.fence_key LIMIT $5
)
LIMIT {fences_are_seen}
