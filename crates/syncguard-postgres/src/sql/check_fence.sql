-- $1 lock id, $2 fence. The row lock blocks releases and takeovers until the caller's transaction ends; extends
-- pass.
SELECT {record}, {now} AS now_ms FROM {locks} AS l
WHERE l.lock_id {=} $1 AND l.fence {=} $2
LIMIT {locks_are_seen} FOR KEY SHARE
