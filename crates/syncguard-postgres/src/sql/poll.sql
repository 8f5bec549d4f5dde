-- $1 storage keys. Returns those that have no live lock. A subquery is no join, so no plan reads the whole table.
SELECT a.key AS free FROM pg_catalog.unnest($1) AS a (key)
WHERE coalesce((SELECT l.expires_at_ms FROM {locks} AS l WHERE l.key {=} a.key), 0) {<=} ((SELECT {now}) {-} {tolerance})
