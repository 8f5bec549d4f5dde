-- The usual release: $1 lock id, $2 deadline in milliseconds, as in release.sql, which says why if there is no row. With a row,
-- the deadline was met, and one reading of the clock less is 1 % of the work of a cycle.
DELETE FROM {locks} AS l
WHERE l.lock_id {=} $1 AND {intact_by_id}{waits_are_bounded}
  AND ({now} {-} {tolerance}) {<} least(l.expires_at_ms, $2 {-} {tolerance_less_1}) AND ({locks_are_seen}) IS NULL
RETURNING l.expires_at_ms {>} ({now} {-} {tolerance}) AS released, NULL::pg_catalog.text AS key, NULL::bigint AS judged_at_ms,
  {commits} AS commits, {signal} AS is_told, $1 AS asked
