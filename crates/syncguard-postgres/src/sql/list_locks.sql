-- $1 the first key that can be in the page, $2 the key after which the page begins, $3 the end of the prefix in the
-- order of the bytes, $4 the prefix, $5 the number of rows, expired locks included.
WITH
-- True if the primary key is in the order of the bytes. Then the prefix is a range of the index. Else the rows are
-- read in the order of the column's collation, and the index finds only `$2`.
bytes AS MATERIALIZED (
  SELECT sample.key {<} 'a' AS ordered
  FROM (SELECT key FROM {locks} WHERE false UNION ALL SELECT 'B') AS sample
)
(
  SELECT {record}, {now} AS now_ms, {holder} AS holder FROM {locks} AS l
  WHERE (SELECT ordered FROM bytes) AND l.key {>=} $1 AND l.key {<>} $2 AND l.key {<} $3
  ORDER BY l.key LIMIT $5
)
UNION ALL
(
  SELECT {record}, {now} AS now_ms, {holder} AS holder FROM {locks} AS l
  WHERE NOT (SELECT ordered FROM bytes) AND l.key {>} $2
    AND pg_catalog.left(l.key, pg_catalog.length($4)) {=} $4
  ORDER BY l.key LIMIT $5
)
LIMIT {locks_are_seen}
