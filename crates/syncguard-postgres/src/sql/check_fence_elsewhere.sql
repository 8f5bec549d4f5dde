-- $1 lock id, $2 fence. As check_fence.sql, for callers that only count rows.
SELECT l.fence FROM {locks} AS l
WHERE l.lock_id {=} $1 AND l.fence {=} $2 AND {intact_by_id} AND l.expires_at_ms {>} ({now} {-} {tolerance})
LIMIT {locks_are_seen} FOR KEY SHARE
