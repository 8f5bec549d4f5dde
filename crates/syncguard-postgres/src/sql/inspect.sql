-- $1 the lock table, $2 the fence table. Answers with one word.
WITH RECURSIVE {hazards},
-- Only from this statement's snapshot: a table that is being created is either complete in it, or absent.
tables AS MATERIALIZED (
  SELECT
    (SELECT oid FROM pg_catalog.pg_class WHERE oid {=} pg_catalog.to_regclass($1)) AS locks,
    (SELECT oid FROM pg_catalog.pg_class WHERE oid {=} pg_catalog.to_regclass($2)) AS fences
),
columns AS MATERIALIZED (
  SELECT a.attrelid, a.attname, a.attnum, a.atttypid::pg_catalog.regtype AS kind
  FROM pg_catalog.pg_attribute AS a, tables
  WHERE a.attrelid {=} ANY (ARRAY[tables.locks, tables.fences]) AND a.attnum {>} 0 AND NOT a.attisdropped
),
wanted (is_lock, name, kind) AS (
  VALUES (true, 'key', 'pg_catalog.text'::pg_catalog.regtype), (true, 'lock_id', 'pg_catalog.text'),
    (true, 'expires_at_ms', 'bigint'), (true, 'acquired_at_ms', 'bigint'), (true, 'fence', 'pg_catalog.text'),
    (true, 'user_key', 'pg_catalog.text'), (false, 'fence_key', 'pg_catalog.text'), (false, 'fence', 'bigint')
),
-- Missing columns of existing tables.
missing AS MATERIALIZED (
  SELECT FROM wanted AS w, tables
  WHERE CASE WHEN w.is_lock THEN locks ELSE fences END IS NOT NULL AND NOT EXISTS (
    SELECT FROM columns AS c WHERE c.attrelid {=} CASE WHEN w.is_lock THEN locks ELSE fences END
      AND c.attname {=} w.name AND c.kind {=} w.kind)
),
indexes AS MATERIALIZED (
  SELECT i.indrelid, i.indisunique, c.attname
  FROM pg_catalog.pg_index AS i
  JOIN columns AS c ON c.attrelid {=} i.indrelid AND c.attnum {=} i.indkey[0]
  WHERE i.indnkeyatts {=} 1 AND i.indisvalid AND i.indpred IS NULL
),
storage AS MATERIALIZED (
  SELECT
    pg_catalog.bool_and(pg_catalog.pg_has_role(c.relowner, 'USAGE')) AS owned,
    pg_catalog.bool_and(
      pg_catalog.array_to_string(c.reloptions, ' ') {~~} '%autovacuum_vacuum_threshold%') AS tuned
  FROM pg_catalog.pg_class AS c, tables WHERE c.oid {=} ANY (ARRAY[tables.locks, tables.fences])
)
SELECT CASE
  WHEN pg_catalog.cardinality(hazards.words) {>} 0 THEN hazards.words[1]
  WHEN EXISTS (SELECT FROM missing)
    OR EXISTS (SELECT FROM columns
      WHERE attrelid {=} locks AND attname {=} 'holder' AND kind {<>} 'pg_catalog.text'::pg_catalog.regtype)
    THEN 'other'
  WHEN locks IS NOT NULL AND NOT EXISTS (
      SELECT FROM indexes WHERE indrelid {=} locks AND indisunique AND attname {=} 'key')
    OR fences IS NOT NULL AND NOT EXISTS (
      SELECT FROM indexes WHERE indrelid {=} fences AND indisunique AND attname {=} 'fence_key')
    THEN 'keyless'
  WHEN locks IS NULL OR fences IS NULL
    OR NOT EXISTS (SELECT FROM columns WHERE attrelid {=} fences AND attname {=} 'key_debug')
    OR NOT EXISTS (SELECT FROM indexes WHERE indrelid {=} locks AND indisunique AND attname {=} 'lock_id')
    OR NOT EXISTS (SELECT FROM indexes WHERE indrelid {=} locks AND attname {=} 'expires_at_ms')
    THEN 'incomplete'
  WHEN NOT (
      pg_catalog.has_table_privilege(locks, 'SELECT') AND pg_catalog.has_table_privilege(locks, 'INSERT')
      AND pg_catalog.has_table_privilege(locks, 'UPDATE') AND pg_catalog.has_table_privilege(locks, 'DELETE')
      AND pg_catalog.has_table_privilege(fences, 'SELECT') AND pg_catalog.has_table_privilege(fences, 'INSERT')
      AND pg_catalog.has_table_privilege(fences, 'UPDATE'))
    THEN 'forbidden'
  -- Improvements that only the owner can make, and that the backend can do without.
  WHEN storage.owned AND (storage.tuned IS NOT TRUE
      OR NOT EXISTS (SELECT FROM columns WHERE attrelid {=} locks AND attname {=} 'holder'))
    THEN 'untuned'
  ELSE 'ready'
END AS state
FROM tables, storage, hazards
