-- $1 the lock table, $2 the fence table, $3 the owner that the options trust, or an empty text
WITH RECURSIVE {hazards},
places AS MATERIALIZED (
  SELECT path.name, path.position FROM pg_catalog.unnest(pg_catalog.current_schemas(false))
    WITH ORDINALITY AS path (name, position)
),
-- The schemas that PostgreSQL searches until it finds both tables.
searched AS MATERIALIZED (
  SELECT p.name, p.position FROM places AS p WHERE EXISTS (
    SELECT FROM wanted
    LEFT JOIN pg_catalog.pg_class AS c ON c.oid {=} pg_catalog.to_regclass(wanted.name)
    LEFT JOIN pg_catalog.pg_namespace AS n ON n.oid {=} c.relnamespace
    LEFT JOIN places AS home ON home.name {=} n.nspname
    WHERE pg_catalog.cardinality(pg_catalog.parse_ident(wanted.name)) {=} 1
      AND (home.position IS NULL OR p.position {<=} home.position))
),
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
needed (is_lock, name, kind) AS (
  VALUES (true, 'key', 'pg_catalog.text'::pg_catalog.regtype), (true, 'lock_id', 'pg_catalog.text'),
    (true, 'expires_at_ms', 'bigint'), (true, 'acquired_at_ms', 'bigint'), (true, 'fence', 'pg_catalog.text'),
    (true, 'user_key', 'pg_catalog.text'), (false, 'fence_key', 'pg_catalog.text'), (false, 'fence', 'bigint')
),
indexes AS MATERIALIZED (
  SELECT i.indrelid, i.indisunique, c.attname,
    CASE WHEN NOT i.indisunique AND ('"' {||} k.relname::pg_catalog.text {||} '"') {=} '{index_expires}'
      THEN k.oid::pg_catalog.regclass::pg_catalog.text END AS superfluous
  FROM pg_catalog.pg_index AS i
  JOIN pg_catalog.pg_class AS k ON k.oid {=} i.indexrelid
  JOIN columns AS c ON c.attrelid {=} i.indrelid AND c.attnum {=} i.indkey[0]
  WHERE i.indnkeyatts {=} 1 AND i.indisvalid AND i.indpred IS NULL
),
storage AS MATERIALIZED (
  SELECT
    pg_catalog.bool_and(pg_catalog.pg_has_role(c.relowner, 'USAGE')) AS owned,
    pg_catalog.bool_and(
      pg_catalog.array_to_string(c.reloptions, ' ') {~~} '%autovacuum_vacuum_threshold%') AS tuned
  FROM pg_catalog.pg_class AS c, tables WHERE c.oid {=} ANY (ARRAY[tables.locks, tables.fences])
),
-- Tables that set-up has to complete.
unfinished (relation) AS MATERIALIZED (
  SELECT fences FROM tables WHERE NOT EXISTS (SELECT FROM columns WHERE attrelid {=} fences AND attname {=} 'key_debug')
  UNION ALL
  SELECT locks FROM tables
  WHERE NOT EXISTS (SELECT FROM indexes WHERE indrelid {=} locks AND indisunique AND attname {=} 'lock_id')
    OR {upgrades} AND EXISTS (SELECT FROM indexes WHERE indrelid {=} locks AND superfluous IS NOT NULL)
    OR {upgrades} AND NOT EXISTS (SELECT FROM columns WHERE attrelid {=} locks AND attname {=} 'holder')
),
-- Why our role cannot make or complete a table: it may not create in a schema, or the table belongs to another role.
obstacles (word, place, owner) AS MATERIALIZED (
  SELECT 'closed', pg_catalog.quote_ident(n.nspname),
    -- 6171 is pg_database_owner, which stands for the owner of the database.
    pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(CASE WHEN n.nspowner {=} 6171 THEN d.datdba ELSE n.nspowner END))
  FROM wanted AS w, pg_catalog.pg_namespace AS n
  JOIN pg_catalog.pg_database AS d ON d.datname {=} pg_catalog.current_database()
  WHERE pg_catalog.to_regclass(w.name) IS NULL AND NOT pg_catalog.has_schema_privilege(n.oid, 'CREATE')
    AND n.nspname {=} CASE WHEN pg_catalog.cardinality(pg_catalog.parse_ident(w.name)) {=} 1
      THEN pg_catalog.current_schema() ELSE (pg_catalog.parse_ident(w.name))[1] END
  UNION ALL
  SELECT 'unowned', f.name, f.owner FROM unfinished AS u JOIN found AS f ON f.oid {=} u.relation
  WHERE NOT pg_catalog.pg_has_role(f.relowner, 'USAGE')
)
SELECT
  pg_catalog.pg_is_in_recovery() AS is_in_recovery,
  pg_catalog.current_setting('fsync') AS fsync,
  pg_catalog.current_setting('full_page_writes') AS full_page_writes,
  (SELECT relpersistence::pg_catalog.text FROM pg_catalog.pg_class WHERE oid {=} locks) AS locks_persistence,
  (SELECT relpersistence::pg_catalog.text FROM pg_catalog.pg_class WHERE oid {=} fences) AS fences_persistence,
  -- The first such schema in which a role may create objects that is not its owner, not our role and no superuser; or
  -- that has the name of our role, which is "$user" in a search path, and another owner.
  (
    SELECT n.nspname::pg_catalog.text
    FROM searched JOIN pg_catalog.pg_namespace AS n ON n.nspname {=} searched.name
    WHERE EXISTS (
      SELECT FROM pg_catalog.aclexplode(n.nspacl) AS a
      LEFT JOIN pg_catalog.pg_roles AS r ON r.oid {=} a.grantee
      WHERE a.privilege_type {=} 'CREATE' AND a.grantee {<>} n.nspowner
        AND r.rolsuper IS NOT TRUE AND (r.rolname {=} current_user) IS NOT TRUE
        AND (r.rolname {=} $3) IS NOT TRUE)
      OR n.nspname {=} current_user AND NOT EXISTS (SELECT FROM trusted WHERE trusted.oid {=} n.nspowner)
    ORDER BY searched.position LIMIT 1
  ) AS open_schema,
  -- True if the lock table exists and lacks the column for holders.
  locks IS NOT NULL
    AND NOT EXISTS (SELECT FROM columns WHERE attrelid {=} locks AND attname {=} 'holder') AS lacks_holders,
  -- An index of set-up on the expiry, by which no statement looks: each extend would write into all indexes.
  (SELECT superfluous FROM indexes WHERE indrelid {=} locks AND attname {=} 'expires_at_ms' AND superfluous IS NOT NULL LIMIT 1)
    AS superfluous_index,
  hazards.words AS hazards,
  -- For set-up: one word.
  CASE
    WHEN EXISTS (
        SELECT FROM needed AS n
        WHERE CASE WHEN n.is_lock THEN locks ELSE fences END IS NOT NULL AND NOT EXISTS (
          SELECT FROM columns AS c WHERE c.attrelid {=} CASE WHEN n.is_lock THEN locks ELSE fences END
            AND c.attname {=} n.name AND c.kind {=} n.kind))
      OR EXISTS (SELECT FROM columns
        WHERE attrelid {=} locks AND attname {=} 'holder' AND kind {<>} 'pg_catalog.text'::pg_catalog.regtype)
      THEN 'other'
    WHEN locks IS NOT NULL AND NOT EXISTS (
        SELECT FROM indexes WHERE indrelid {=} locks AND indisunique AND attname {=} 'key')
      OR fences IS NOT NULL AND NOT EXISTS (
        SELECT FROM indexes WHERE indrelid {=} fences AND indisunique AND attname {=} 'fence_key')
      THEN 'keyless'
    WHEN EXISTS (SELECT FROM obstacles) THEN (SELECT o.word FROM obstacles AS o LIMIT 1)
    WHEN EXISTS (SELECT FROM unfinished) THEN 'incomplete'
    WHEN NOT (
        pg_catalog.has_table_privilege(locks, 'SELECT') AND pg_catalog.has_table_privilege(locks, 'INSERT')
        AND pg_catalog.has_table_privilege(locks, 'UPDATE') AND pg_catalog.has_table_privilege(locks, 'DELETE')
        AND pg_catalog.has_table_privilege(fences, 'SELECT') AND pg_catalog.has_table_privilege(fences, 'INSERT')
        AND pg_catalog.has_table_privilege(fences, 'UPDATE'))
      THEN 'forbidden'
    -- Improvements that only the owner can make, and that the backend can do without.
    WHEN storage.owned AND storage.tuned IS NOT TRUE THEN 'untuned'
    ELSE 'ready'
  END AS state,
  (SELECT o.place FROM obstacles AS o LIMIT 1) AS place,
  (SELECT o.owner FROM obstacles AS o LIMIT 1) AS owner,
  pg_catalog.quote_ident(current_user) AS role
FROM tables, storage, hazards
