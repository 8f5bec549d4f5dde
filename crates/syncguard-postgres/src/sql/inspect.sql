-- $1 the lock table, $2 the fence table. Answers with one word.
WITH
-- By this statement's snapshot alone: a table that is being made is either there with all it has, or not.
tables AS MATERIALIZED (
  SELECT
    (SELECT oid FROM pg_catalog.pg_class WHERE oid = to_regclass($1)) AS locks,
    (SELECT oid FROM pg_catalog.pg_class WHERE oid = to_regclass($2)) AS fences
),
columns AS MATERIALIZED (
  SELECT a.attrelid, a.attname, a.attnum, format_type(a.atttypid, NULL) AS kind
  FROM pg_catalog.pg_attribute AS a, tables
  WHERE a.attrelid IN (tables.locks, tables.fences) AND a.attnum > 0 AND NOT a.attisdropped
),
indexes AS MATERIALIZED (
  SELECT i.indrelid, i.indisunique, c.attname
  FROM pg_catalog.pg_index AS i
  JOIN columns AS c ON c.attrelid = i.indrelid AND c.attnum = i.indkey[0]
  WHERE i.indnkeyatts = 1 AND i.indisvalid AND i.indpred IS NULL
),
storage AS MATERIALIZED (
  SELECT
    bool_and(pg_has_role(c.relowner, 'USAGE')) AS owned,
    bool_and(array_to_string(c.reloptions, ' ') LIKE '%autovacuum_vacuum_threshold%') AS tuned
  FROM pg_catalog.pg_class AS c, tables WHERE c.oid IN (tables.locks, tables.fences)
)
SELECT CASE
  WHEN locks IS NOT NULL AND (SELECT count(*) FROM columns WHERE attrelid = locks AND (attname, kind) IN (
      ('key', 'text'), ('lock_id', 'text'), ('expires_at_ms', 'bigint'),
      ('acquired_at_ms', 'bigint'), ('fence', 'text'), ('user_key', 'text'))) < 6
    OR fences IS NOT NULL AND (SELECT count(*) FROM columns WHERE attrelid = fences AND (attname, kind) IN (
      ('fence_key', 'text'), ('fence', 'bigint'))) < 2
    THEN 'foreign'
  WHEN locks IS NOT NULL AND NOT EXISTS (
      SELECT FROM indexes WHERE indrelid = locks AND indisunique AND attname = 'key')
    OR fences IS NOT NULL AND NOT EXISTS (
      SELECT FROM indexes WHERE indrelid = fences AND indisunique AND attname = 'fence_key')
    THEN 'keyless'
  WHEN locks IS NULL OR fences IS NULL
    OR NOT EXISTS (SELECT FROM columns WHERE attrelid = fences AND attname = 'key_debug')
    OR NOT EXISTS (SELECT FROM indexes WHERE indrelid = locks AND indisunique AND attname = 'lock_id')
    OR NOT EXISTS (SELECT FROM indexes WHERE indrelid = locks AND attname = 'expires_at_ms')
    THEN 'incomplete'
  WHEN NOT (has_table_privilege(locks, 'SELECT') AND has_table_privilege(locks, 'INSERT')
    AND has_table_privilege(locks, 'UPDATE') AND has_table_privilege(locks, 'DELETE')
    AND has_table_privilege(fences, 'SELECT') AND has_table_privilege(fences, 'INSERT')
    AND has_table_privilege(fences, 'UPDATE'))
    THEN 'forbidden'
  WHEN storage.owned AND storage.tuned IS NOT TRUE
    THEN 'untuned'
  ELSE 'ready'
END
FROM tables, storage
