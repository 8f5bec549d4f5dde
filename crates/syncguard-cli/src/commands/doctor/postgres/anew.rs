//! The statements that make tables anew.
//!
//! The tables may have code of somebody else on them, and the statements run as an administrator. So they take away all
//! that a query of the tables would call, then read the rows, and drop the tables.

use syncguard::postgres::{PostgresOptions, schema_sql};

use super::catalog::Catalog;
use super::names::literal;

/// The columns to keep.
const LOCKS: [&str; 7] =
    ["key", "lock_id", "expires_at_ms", "acquired_at_ms", "fence", "user_key", "holder"];
const COUNTERS: [&str; 3] = ["fence_key", "fence", "key_debug"];

/// Takes row-level security, constraints, indexes and statistics from the tables {old}, whose expressions the planner may
/// evaluate. A column of another type could have a cast that is somebody's function.
const STRIP: &str = "DO $mend$ DECLARE t oid; found record; BEGIN FOREACH t IN ARRAY ARRAY[{old}]::oid[] LOOP \
    IF EXISTS (SELECT FROM pg_attribute WHERE attrelid = t AND attname = ANY (ARRAY[{columns}]) AND atttypid >= 16384) \
    THEN RAISE EXCEPTION 'a column has a type of somebody else: name other tables in the URL'; END IF; \
    FOR found IN SELECT format('ALTER TABLE ONLY %s DISABLE ROW LEVEL SECURITY', t::regclass) AS sql \
    UNION ALL SELECT format('ALTER TABLE %s DROP CONSTRAINT %I CASCADE', t::regclass, conname) FROM pg_constraint \
    WHERE conrelid = t AND contype <> 'n' AND contype <> 't' \
    UNION ALL SELECT format('DROP INDEX IF EXISTS %I.%I', n.nspname, c.relname) \
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace WHERE i.indrelid = t \
    UNION ALL SELECT format('DROP STATISTICS %I.%I', n.nspname, s.stxname) \
    FROM pg_statistic_ext s JOIN pg_namespace n ON n.oid = s.stxnamespace WHERE s.stxrelid = t \
    LOOP EXECUTE found.sql; END LOOP; END LOOP; END $mend$";

/// Returns the statements, which carry the rows of the old tables over. They are one transaction. `None` if that is not
/// possible: then the tables need other names.
pub(super) async fn statements(catalog: &Catalog<'_>, old: &[&str]) -> Option<String> {
    let (locks, fences) = (&catalog.tables.locks, &catalog.tables.fences);
    let role = catalog.role().await?;
    let (mut kept, mut inserted) = (Vec::new(), Vec::new());
    let mut home = None;
    for table in old {
        let columns = catalog.columns(table).await?;
        let has = |name: &&&str| columns.iter().any(|column| column == **name);
        let (is_lock, ours) = if columns.iter().any(|column| column == "lock_id") {
            (true, LOCKS.iter().filter(has).copied().collect::<Vec<_>>().join(", "))
        } else {
            (false, COUNTERS.iter().filter(has).copied().collect::<Vec<_>>().join(", "))
        };
        let target = if is_lock { locks } else { fences };
        let schema = catalog.schema(target).await.or(catalog.schema_of(table).await)?;
        if *home.get_or_insert_with(|| schema.clone()) != schema {
            return None;
        }
        let target = target.within(&schema);
        if is_lock {
            kept.push(format!(
                "CREATE TEMP TABLE syncguard_kept_locks ON COMMIT DROP AS SELECT {ours} FROM ONLY {table} \
                 WHERE (key, lock_id, expires_at_ms, acquired_at_ms, fence, user_key) IS NOT NULL"
            ));
            inserted.push(format!(
                "INSERT INTO {target} ({ours}) SELECT {ours} FROM syncguard_kept_locks ON CONFLICT DO NOTHING; \
                 GRANT SELECT, INSERT, UPDATE, DELETE ON {target} TO {role}"
            ));
        } else {
            kept.push(format!(
                "CREATE TEMP TABLE syncguard_kept_counters ON COMMIT DROP AS SELECT fence_key, max(fence) AS fence \
                 FROM ONLY {table} WHERE (fence_key, fence) IS NOT NULL GROUP BY fence_key"
            ));
            inserted.push(format!(
                "INSERT INTO {target} AS c (fence_key, fence, key_debug) \
                 SELECT fence_key, fence, substr(fence_key, 7) FROM syncguard_kept_counters \
                 ON CONFLICT (fence_key) DO UPDATE SET fence = greatest(c.fence, excluded.fence); \
                 GRANT SELECT, INSERT, UPDATE ON {target} TO {role}"
            ));
        }
    }
    let options = PostgresOptions::new().with_tables(locks.in_options(), fences.in_options());
    let schema = schema_sql(&options).ok()?;
    let schema: Vec<&str> =
        schema.lines().map(str::trim).filter(|line| !line.starts_with("--")).collect();
    let regclasses: Vec<String> =
        old.iter().map(|table| format!("{}::regclass", literal(table))).collect();
    let columns: Vec<String> = LOCKS.iter().chain(&COUNTERS).map(|name| literal(name)).collect();
    let strip =
        STRIP.replace("{old}", &regclasses.join(", ")).replace("{columns}", &columns.join(", "));
    let only: Vec<String> = old.iter().map(|table| format!("ONLY {table}")).collect();
    Some(format!(
        "BEGIN; SET LOCAL client_min_messages = warning; SET LOCAL search_path = pg_catalog; LOCK TABLE {} IN ACCESS EXCLUSIVE MODE; {strip}; {}; \
         DROP TABLE {} CASCADE; SET LOCAL search_path = {}; {} SET LOCAL search_path = pg_catalog; {}; COMMIT",
        only.join(", "),
        kept.join("; "),
        old.join(", "),
        home?,
        schema.join(" "),
        inserted.join("; "),
    ))
}
