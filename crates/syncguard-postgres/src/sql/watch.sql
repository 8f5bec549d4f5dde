-- $1 storage keys to watch, $2 numbers of keys that nobody watches any more. A number that a release
-- under way holds is not waited for: the session has other keys to listen for.
WITH asked AS MATERIALIZED (
  SELECT l.position, {number} AS number FROM unnest($1) WITH ORDINALITY AS l (key, position)
),
watched AS MATERIALIZED (
  SELECT position, number, pg_try_advisory_lock_shared(number) AS is_watched FROM asked
),
forgotten AS MATERIALIZED (
  SELECT pg_advisory_unlock_shared(number) FROM unnest($2) AS f (number)
)
SELECT {table}, (SELECT count(*) FROM forgotten),
  array_agg(number ORDER BY position), array_agg(is_watched ORDER BY position)
FROM watched
