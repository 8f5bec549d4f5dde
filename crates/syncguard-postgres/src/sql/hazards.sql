-- $1 the lock table, $2 the fence table, $3 the owner that the options trust, or an empty text. What lets others change
-- or hide the rows of the two tables, or run code as our role when it uses them.
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
  SELECT r.oid FROM pg_catalog.pg_roles AS r WHERE r.rolsuper OR r.rolname {=} $3
  UNION
  SELECT d.datdba FROM pg_catalog.pg_database AS d WHERE d.datname {=} pg_catalog.current_database()
),
wanted (name, mark) AS MATERIALIZED (VALUES ($1, 'lock_id'), ($2, 'fence_key')),
found AS MATERIALIZED (
  SELECT c.oid, c.relkind, c.reloftype, c.relowner, c.relacl, n.nspname, n.nspowner,
    pg_catalog.format('%I.%I', n.nspname, c.relname) AS name,
    pg_catalog.pg_get_userbyid(c.relowner) AS owner,
    pg_catalog.pg_get_userbyid(c.relowner) {=} $3 AS is_vouched_for,
    -- A search path names this schema as "$user", also if somebody else has made it.
    n.nspname {=} current_user
      AND pg_catalog.cardinality(pg_catalog.parse_ident(wanted.name)) {=} 1 AS is_of_user
  FROM wanted
  JOIN pg_catalog.pg_class AS c ON c.oid {=} pg_catalog.to_regclass(wanted.name)
  JOIN pg_catalog.pg_namespace AS n ON n.oid {=} c.relnamespace
),
-- All that runs code, beyond what set-up makes. The planner calls functions of indexes and of statistics, too. Oids below
-- 16384 are PostgreSQL's own. A default may be a constant, or one of int8(int4), now, nextval and gen_random_uuid.
code (relation, what, class, object) AS MATERIALIZED (
  SELECT f.oid, pg_catalog.format('the trigger %I', t.tgname), t.tableoid, t.oid
  FROM found AS f JOIN pg_catalog.pg_trigger AS t ON t.tgrelid {=} f.oid
  WHERE NOT t.tgisinternal AND t.tgenabled {<>} 'D'
  UNION ALL
  SELECT f.oid, pg_catalog.format('the rule %I', w.rulename), w.tableoid, w.oid
  FROM found AS f JOIN pg_catalog.pg_rewrite AS w ON w.ev_class {=} f.oid
  WHERE w.rulename {<>} '_RETURN'
  UNION ALL
  SELECT f.oid, pg_catalog.format('the constraint %I', k.conname), k.tableoid, k.oid
  FROM found AS f JOIN pg_catalog.pg_constraint AS k ON f.oid {=} k.confrelid
    OR f.oid {=} k.conrelid AND k.contype {<>} 'p' AND k.contype {<>} 'u' AND k.contype {<>} 'n'
  UNION ALL
  SELECT f.oid, pg_catalog.format('the default or the expression of the column %I', a.attname), d.tableoid, d.oid
  FROM found AS f JOIN pg_catalog.pg_attrdef AS d ON d.adrelid {=} f.oid
  JOIN pg_catalog.pg_attribute AS a ON a.attrelid {=} f.oid AND a.attnum {=} d.adnum
  WHERE d.adbin::pg_catalog.text
    {~} '[{](?!(CONST|FUNCEXPR|SQLVALUEFUNCTION) )|:funcid (?!(481|1299|1574|3432) )'
  UNION ALL
  SELECT f.oid, pg_catalog.format('the type or the collation of the column %I', a.attname), t.class, t.oid
  FROM found AS f JOIN pg_catalog.pg_attribute AS a ON a.attrelid {=} f.oid
  CROSS JOIN LATERAL (VALUES ('pg_catalog.pg_type'::pg_catalog.regclass::pg_catalog.oid, a.atttypid),
    ('pg_catalog.pg_collation'::pg_catalog.regclass::pg_catalog.oid, a.attcollation)) AS t (class, oid)
  WHERE a.attnum {>} 0 AND NOT a.attisdropped AND (a.atttypid {>=} 16384 OR a.attcollation {>=} 16384)
  UNION ALL
  SELECT f.oid, pg_catalog.format('the index %I', c.relname), c.tableoid, c.oid
  FROM found AS f JOIN pg_catalog.pg_index AS i ON i.indrelid {=} f.oid
  JOIN pg_catalog.pg_class AS c ON c.oid {=} i.indexrelid
  WHERE i.indexprs IS NOT NULL OR i.indpred IS NOT NULL
    OR 16384 {<=} ANY (i.indcollation::pg_catalog.oid[])
    OR EXISTS (SELECT FROM pg_catalog.pg_opclass AS o JOIN pg_catalog.pg_roles AS r ON r.oid {=} o.opcowner
      WHERE o.oid {=} ANY (i.indclass::pg_catalog.oid[]) AND NOT r.rolsuper)
  UNION ALL
  SELECT f.oid, pg_catalog.format('the statistics %I', s.stxname), s.tableoid, s.oid
  FROM found AS f JOIN pg_catalog.pg_statistic_ext AS s ON s.stxrelid {=} f.oid
  WHERE s.stxkind::pg_catalog.text {~} 'e'
),
-- On a table of the owner that the options trust: the code, and all that it uses.
behind (relation, what, class, object) AS (
  SELECT code.* FROM code JOIN found AS f ON f.oid {=} code.relation WHERE f.is_vouched_for
  UNION
  SELECT b.relation, b.what, d.refclassid, d.refobjid
  FROM behind AS b JOIN pg_catalog.pg_depend AS d ON d.classid {=} b.class AND d.objid {=} b.object
  WHERE d.deptype {<>} 'e'
    AND d.refclassid {<>} 'pg_catalog.pg_namespace'::pg_catalog.regclass::pg_catalog.oid
),
-- The code on such a table behind which something of somebody else stands. A superuser that initdb makes is not listed.
strange (relation, what) AS (
  SELECT b.relation, b.what
  FROM behind AS b JOIN pg_catalog.pg_shdepend AS s ON s.classid {=} b.class AND s.objid {=} b.object
  JOIN pg_catalog.pg_database AS d ON d.oid {=} s.dbid
  WHERE d.datname {=} pg_catalog.current_database() AND s.deptype {=} 'o'
    AND NOT EXISTS (SELECT FROM trusted WHERE trusted.oid {=} s.refobjid)
),
-- Roles that may put code on a table.
openings (relation, what) AS MATERIALIZED (
  SELECT f.oid, coalesce(pg_catalog.quote_ident(r.rolname), 'PUBLIC')
  FROM found AS f
  CROSS JOIN LATERAL (
    SELECT t.grantee, t.privilege_type FROM pg_catalog.aclexplode(f.relacl) AS t
    UNION
    SELECT k.grantee, k.privilege_type
    FROM pg_catalog.pg_attribute AS a CROSS JOIN LATERAL pg_catalog.aclexplode(a.attacl) AS k
    WHERE a.attrelid {=} f.oid
  ) AS granted
  LEFT JOIN pg_catalog.pg_roles AS r ON r.oid {=} granted.grantee
  WHERE (granted.privilege_type {=} 'TRIGGER' OR granted.privilege_type {=} 'REFERENCES')
    AND granted.grantee {<>} f.relowner
    AND NOT EXISTS (SELECT FROM trusted WHERE trusted.oid {=} granted.grantee)
),
risks (word, name, owner, what) AS (
  SELECT 'special', f.name, f.owner, ''::pg_catalog.text FROM found AS f
  WHERE NOT f.is_vouched_for AND (f.relkind {<>} 'r' OR f.reloftype {<>} 0
    OR EXISTS (SELECT FROM pg_catalog.pg_inherits AS i WHERE i.inhparent {=} f.oid OR i.inhrelid {=} f.oid))
  UNION ALL
  SELECT 'foreign', f.name, f.owner, '' FROM found AS f
  WHERE NOT EXISTS (SELECT FROM trusted WHERE trusted.oid {=} f.relowner)
    AND (f.is_of_user OR f.relowner {<>} f.nspowner)
  UNION ALL
  SELECT DISTINCT 'schema', pg_catalog.quote_ident(f.nspname),
    pg_catalog.pg_get_userbyid(f.nspowner), '' FROM found AS f
  WHERE f.is_of_user AND NOT EXISTS (SELECT FROM trusted WHERE trusted.oid {=} f.nspowner)
  UNION ALL
  SELECT 'acts', f.name, f.owner, pg_catalog.string_agg(DISTINCT code.what, ', ')
  FROM found AS f JOIN code ON code.relation {=} f.oid
  WHERE NOT f.is_vouched_for
    OR EXISTS (SELECT FROM strange AS s WHERE s.relation {=} f.oid AND s.what {=} code.what)
  GROUP BY f.name, f.owner
  UNION ALL
  SELECT 'open', f.name, f.owner, pg_catalog.string_agg(DISTINCT openings.what, ', ')
  FROM found AS f JOIN openings ON openings.relation {=} f.oid
  WHERE NOT f.is_vouched_for GROUP BY f.name, f.owner
  UNION ALL
  SELECT 'hides', f.name, f.owner, '' FROM found AS f WHERE pg_catalog.row_security_active(f.oid)
  UNION ALL
  -- Earlier builds, and the set-up of the TypeScript library, make lower case of the name. Beside our table, a table that a
  -- stranger has made is no reason to stop.
  SELECT 'folded', w.name, pg_catalog.format('%I.%I', n.nspname, c.relname),
    CASE WHEN pg_catalog.to_regclass(w.name) IS NULL THEN 'missing' ELSE '' END
  FROM wanted AS w
  JOIN pg_catalog.pg_class AS c
    ON c.oid {=} pg_catalog.to_regclass(pg_catalog.lower(w.name COLLATE pg_catalog."C"))
  JOIN pg_catalog.pg_namespace AS n ON n.oid {=} c.relnamespace
  JOIN pg_catalog.pg_attribute AS a ON a.attrelid {=} c.oid AND a.attname {=} w.mark AND NOT a.attisdropped
  WHERE pg_catalog.lower(w.name COLLATE pg_catalog."C") {<>} w.name
    AND (pg_catalog.to_regclass(w.name) IS NULL
      OR EXISTS (SELECT FROM trusted WHERE trusted.oid {=} c.relowner)
      OR EXISTS (SELECT FROM found AS f WHERE f.relowner {=} c.relowner))
),
hazards AS MATERIALIZED (
  SELECT pg_catalog.array_agg(part.value ORDER BY r.number, part.number) AS words
  FROM (SELECT risks.*, pg_catalog.row_number() OVER () AS number FROM risks) AS r
  CROSS JOIN LATERAL pg_catalog.unnest(ARRAY[r.word, r.name, r.owner, r.what]::pg_catalog.text[])
    WITH ORDINALITY AS part (value, number)
)
