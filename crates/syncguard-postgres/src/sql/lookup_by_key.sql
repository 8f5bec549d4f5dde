-- $1 storage key
SELECT {record}, {now} AS now_ms, {holder} AS holder FROM {locks} AS l WHERE l.key {=} $1
LIMIT {locks_are_seen}
