-- $1 the lock table, $2 the fence table
WITH RECURSIVE {hazards},
places AS MATERIALIZED (
  SELECT path.name, path.position FROM pg_catalog.unnest(pg_catalog.current_schemas(false))
    WITH ORDINALITY AS path (name, position)
),
-- The schemas that PostgreSQL searches until it finds both tables.
searched AS MATERIALIZED (
  SELECT p.name, p.position FROM places AS p WHERE EXISTS (
    SELECT FROM (VALUES ($1), ($2)) AS wanted (name)
    LEFT JOIN pg_catalog.pg_class AS c ON c.oid {=} pg_catalog.to_regclass(wanted.name)
    LEFT JOIN pg_catalog.pg_namespace AS n ON n.oid {=} c.relnamespace
    LEFT JOIN places AS home ON home.name {=} n.nspname
    WHERE pg_catalog.cardinality(pg_catalog.parse_ident(wanted.name)) {=} 1
      AND (home.position IS NULL OR p.position {<=} home.position))
)
SELECT
  pg_catalog.pg_is_in_recovery() AS is_in_recovery,
  pg_catalog.current_setting('fsync') AS fsync,
  pg_catalog.current_setting('full_page_writes') AS full_page_writes,
  (SELECT relpersistence::pg_catalog.text FROM pg_catalog.pg_class WHERE oid {=} pg_catalog.to_regclass($1)) AS locks_persistence,
  (SELECT relpersistence::pg_catalog.text FROM pg_catalog.pg_class WHERE oid {=} pg_catalog.to_regclass($2)) AS fences_persistence,
  -- The first such schema in which a role may create objects that is not its owner, not our role and no superuser; or
  -- that has the name of our role, which is "$user" in a search path, and another owner.
  (
    SELECT n.nspname::pg_catalog.text
    FROM searched JOIN pg_catalog.pg_namespace AS n ON n.nspname {=} searched.name
    WHERE EXISTS (
      SELECT FROM pg_catalog.aclexplode(n.nspacl) AS a
      LEFT JOIN pg_catalog.pg_roles AS r ON r.oid {=} a.grantee
      WHERE a.privilege_type {=} 'CREATE' AND a.grantee {<>} n.nspowner
        AND r.rolsuper IS NOT TRUE AND (r.rolname {=} current_user) IS NOT TRUE)
      OR n.nspname {=} current_user AND NOT EXISTS (SELECT FROM trusted WHERE trusted.oid {=} n.nspowner)
    ORDER BY searched.position LIMIT 1
  ) AS open_schema,
  -- True if the lock table exists and lacks the column for holders.
  pg_catalog.to_regclass($1) IS NOT NULL AND NOT EXISTS (
    SELECT FROM pg_catalog.pg_attribute AS a
    WHERE a.attrelid {=} pg_catalog.to_regclass($1) AND a.attname {=} 'holder' AND NOT a.attisdropped) AS lacks_holders,
  (SELECT words FROM hazards) AS hazards
