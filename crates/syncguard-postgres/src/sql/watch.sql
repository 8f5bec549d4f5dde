-- $1 storage keys to watch, $2 numbers of keys to unwatch. The statement does not wait for a number that a release
-- in progress holds: the session has other keys to listen for.
WITH asked AS MATERIALIZED (
  SELECT l.position, {number} AS number FROM pg_catalog.unnest($1) WITH ORDINALITY AS l (key, position)
),
watched AS MATERIALIZED (
  SELECT position, number, pg_catalog.pg_try_advisory_lock_shared(number) AS is_watched FROM asked
),
forgotten AS MATERIALIZED (
  SELECT pg_catalog.pg_advisory_unlock_shared(number) FROM pg_catalog.unnest($2) AS f (number)
)
SELECT {table} AS table_oid, (SELECT pg_catalog.count(*) FROM forgotten) AS unwatched,
  pg_catalog.array_agg(number ORDER BY position) AS numbers,
  pg_catalog.array_agg(is_watched ORDER BY position) AS are_watched
FROM watched
