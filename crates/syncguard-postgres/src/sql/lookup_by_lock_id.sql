-- $1 lock id
SELECT {record}, {now} AS now_ms, {holder} AS holder FROM {locks} AS l WHERE l.lock_id {=} $1
LIMIT {locks_are_seen}
