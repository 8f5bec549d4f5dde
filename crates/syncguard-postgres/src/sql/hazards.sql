-- $1 the lock table, $2 the fence table. What lets others change or hide the rows of the two tables, or run code as our
-- role when it uses them.
--
-- The roles that our role may become. Since PostgreSQL 16, a role that creates another is its member without this right.
groups (oid) AS (
  SELECT r.oid FROM pg_catalog.pg_roles AS r WHERE r.rolname {=} current_user
  UNION
  SELECT m.roleid FROM pg_catalog.pg_auth_members AS m JOIN groups ON groups.oid {=} m.member
  WHERE coalesce(pg_catalog.to_jsonb(m) {->>} 'set_option'::pg_catalog.text, 'true') {=} 'true'
),
trusted AS MATERIALIZED (
  SELECT groups.oid FROM groups
  UNION
  SELECT r.oid FROM pg_catalog.pg_roles AS r WHERE r.rolsuper
  UNION
  SELECT d.datdba FROM pg_catalog.pg_database AS d WHERE d.datname {=} pg_catalog.current_database()
),
found AS MATERIALIZED (
  SELECT c.oid, c.relkind, c.relowner, c.relacl, n.nspowner,
    -- A search path names this schema as "$user", also if somebody else has made it.
    n.nspname {=} current_user
      AND pg_catalog.cardinality(pg_catalog.parse_ident(wanted.name)) {=} 1 AS is_of_user
  FROM (VALUES ($1), ($2)) AS wanted (name)
  JOIN pg_catalog.pg_class AS c ON c.oid {=} pg_catalog.to_regclass(wanted.name)
  JOIN pg_catalog.pg_namespace AS n ON n.oid {=} c.relnamespace
),
checked AS MATERIALIZED (
  SELECT
    f.relkind {<>} 'r' OR EXISTS (SELECT FROM pg_catalog.pg_inherits AS i WHERE i.inhparent {=} f.oid) AS is_special,
    NOT EXISTS (SELECT FROM trusted WHERE trusted.oid {=} f.relowner)
        AND (f.is_of_user OR f.relowner {<>} f.nspowner)
      OR f.is_of_user AND NOT EXISTS (SELECT FROM trusted WHERE trusted.oid {=} f.nspowner) AS is_foreign,
    EXISTS (SELECT FROM pg_catalog.pg_trigger AS t
        WHERE t.tgrelid {=} f.oid AND NOT t.tgisinternal AND t.tgenabled {<>} 'D')
      OR EXISTS (SELECT FROM pg_catalog.pg_rewrite AS w WHERE w.ev_class {=} f.oid AND w.rulename {<>} '_RETURN')
      OR EXISTS (SELECT FROM pg_catalog.pg_constraint AS k WHERE k.confrelid {=} f.oid AND k.contype {=} 'f') AS acts,
    EXISTS (SELECT FROM pg_catalog.aclexplode(f.relacl) AS a
        WHERE (a.privilege_type {=} 'TRIGGER' OR a.privilege_type {=} 'REFERENCES') AND a.grantee {<>} f.relowner
          AND NOT EXISTS (SELECT FROM trusted WHERE trusted.oid {=} a.grantee)) AS is_open,
    pg_catalog.row_security_active(f.oid) AS hides
  FROM found AS f
),
hazards AS MATERIALIZED (
  SELECT pg_catalog.array_remove(ARRAY[
    CASE WHEN pg_catalog.bool_or(is_special) THEN 'special' END, CASE WHEN pg_catalog.bool_or(is_foreign) THEN 'foreign' END,
    CASE WHEN pg_catalog.bool_or(acts) THEN 'acts' END, CASE WHEN pg_catalog.bool_or(is_open) THEN 'open' END,
    CASE WHEN pg_catalog.bool_or(hides) THEN 'hides' END], NULL) AS words
  FROM checked
)
