//! Everything that PostgreSQL lets others put on a table.

use anyhow::{Context as _, Result, ensure};
use syncguard::postgres::{PostgresOptions, schema_sql};

use super::tables::{accepts_tables, refuses_tables, server};

/// A function `gift` of another role, which counts its calls even if they are rolled back, and objects that call it.
const GIFT: &str = "CREATE ROLE other; GRANT CREATE ON SCHEMA public TO other; SET ROLE other;
    CREATE SEQUENCE calls; GRANT ALL ON calls TO PUBLIC;
    CREATE FUNCTION gift(text) RETURNS int LANGUAGE plpgsql IMMUTABLE AS
      'BEGIN PERFORM nextval(''public.calls''); RETURN 1; END';
    CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM public.gift(''''); RETURN NEW; END';
    CREATE DOMAIN tame AS text CHECK (public.gift(VALUE) = 1);
    CREATE TYPE pair AS (one text);
    CREATE FUNCTION as_json(pair) RETURNS json LANGUAGE sql AS 'SELECT to_json(public.gift(''''))';
    CREATE CAST (pair AS json) WITH FUNCTION as_json(pair);
    CREATE FUNCTION less(text, text) RETURNS int LANGUAGE plpgsql IMMUTABLE AS
      'BEGIN RETURN bttextcmp($1, $2) * public.gift($1); END';
    CREATE COLLATION odd (locale = 'C'); RESET ROLE;
    CREATE ROLE team; CREATE ROLE migrator; GRANT team TO app;
    CREATE OPERATOR CLASS of_other FOR TYPE text USING btree AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =,
      OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 less(text, text);
    ALTER OPERATOR CLASS of_other USING btree OWNER TO other;
    CREATE TYPE like_ours AS (fence_key text, fence bigint, key_debug text)";

/// The code that others can put on a table, how it is taken away, and how it is named. A `+` stands for `ALTER TABLE
/// syncguard_locks`.
const ACTING: &[(&str, &str, &str)] = &[
    (
        "CREATE TRIGGER t BEFORE UPDATE ON syncguard_fence_counters FOR EACH ROW EXECUTE FUNCTION f()",
        "DROP TRIGGER t ON syncguard_fence_counters",
        "the trigger t",
    ),
    (
        "CREATE RULE r AS ON DELETE TO syncguard_locks DO ALSO SELECT gift('')",
        "DROP RULE r ON syncguard_locks",
        "the rule r",
    ),
    (
        "CREATE TABLE leads (key text CONSTRAINT x REFERENCES syncguard_locks)",
        "DROP TABLE leads",
        "the constraint x",
    ),
    (
        "CREATE TABLE led (x text PRIMARY KEY); + ADD COLUMN y text CONSTRAINT x REFERENCES led",
        "+ DROP COLUMN y; DROP TABLE led",
        "the constraint x",
    ),
    ("+ ADD CONSTRAINT x CHECK (gift(key) = 1)", "+ DROP CONSTRAINT x", "the constraint x"),
    (
        "+ ADD CONSTRAINT x EXCLUDE USING btree ((gift(key)) WITH =)",
        "+ DROP CONSTRAINT x",
        "the constraint x",
    ),
    ("+ ADD COLUMN x int; + ALTER x SET DEFAULT gift('')", "+ DROP COLUMN x", "the column x"),
    // A function of PostgreSQL's own that runs any statement.
    (
        "+ ADD COLUMN x xml; + ALTER x SET DEFAULT query_to_xml('SELECT public.gift('''')', true, true, '')",
        "+ DROP COLUMN x",
        "the column x",
    ),
    (
        "+ ADD COLUMN x int GENERATED ALWAYS AS (gift(key)) STORED",
        "+ DROP COLUMN x",
        "the column x",
    ),
    ("+ ADD COLUMN x tame", "+ DROP COLUMN x", "the column x"),
    ("+ ADD COLUMN x tame[]", "+ DROP COLUMN x", "the column x"),
    ("+ ADD COLUMN x pair", "+ DROP COLUMN x", "the column x"),
    ("+ ADD COLUMN x text COLLATE odd", "+ DROP COLUMN x", "the column x"),
    ("CREATE INDEX x ON syncguard_locks (gift(key))", "DROP INDEX x", "the index x"),
    (
        "CREATE INDEX x ON syncguard_locks (fence) WHERE gift(key) = 1",
        "DROP INDEX x",
        "the index x",
    ),
    // The planner evaluates it.
    ("CREATE INDEX x ON syncguard_locks (key, gift(''))", "DROP INDEX x", "the index x"),
    ("CREATE INDEX x ON syncguard_locks (user_key of_other)", "DROP INDEX x", "the index x"),
    ("CREATE INDEX x ON syncguard_locks (user_key COLLATE odd)", "DROP INDEX x", "the index x"),
    (
        "CREATE STATISTICS x ON (gift('')), key FROM syncguard_locks",
        "DROP STATISTICS x",
        "the statistics x",
    ),
    (
        "GRANT ALL ON syncguard_locks, syncguard_fence_counters TO other",
        "REVOKE TRIGGER, REFERENCES ON syncguard_locks, syncguard_fence_counters FROM other",
        "other roles may put code on the table public.syncguard_locks: other",
    ),
    (
        "GRANT TRIGGER ON syncguard_locks TO PUBLIC",
        "REVOKE TRIGGER ON syncguard_locks FROM PUBLIC",
        "public.syncguard_locks: PUBLIC",
    ),
    (
        "GRANT REFERENCES (key) ON syncguard_locks TO other",
        "REVOKE REFERENCES ON syncguard_locks FROM other",
        "public.syncguard_locks: other",
    ),
    ("+ OWNER TO migrator", "+ OWNER TO team", "public.syncguard_locks belongs to migrator"),
    (
        "CREATE TABLE child () INHERITS (syncguard_locks)",
        "DROP TABLE child",
        "public.syncguard_locks is a view, a parent",
    ),
    (
        "CREATE TABLE parent (key text NOT NULL); + INHERIT parent",
        "+ NO INHERIT parent; DROP TABLE parent",
        "public.syncguard_locks is a view, a parent",
    ),
    (
        "ALTER TABLE syncguard_fence_counters OF like_ours",
        "ALTER TABLE syncguard_fence_counters NOT OF",
        "public.syncguard_fence_counters is a view, a parent",
    ),
    (
        "+ ENABLE ROW LEVEL SECURITY; + FORCE ROW LEVEL SECURITY; CREATE POLICY x ON syncguard_locks USING (gift('') = 1)",
        "DROP POLICY x ON syncguard_locks; + DISABLE ROW LEVEL SECURITY",
        "row-level security may hide rows of the table public.syncguard_locks",
    ),
];

/// How the names of code begin.
const CODE: &[&str] =
    &["the trigger", "the rule", "the constraint", "the column", "the index", "the statistics"];

/// Additions that a user may make.
const HARMLESS: &str = "CREATE INDEX ON syncguard_locks (user_key, expires_at_ms DESC);
    CREATE INDEX ON syncguard_locks USING hash (fence); CREATE STATISTICS plain ON key, user_key FROM syncguard_locks;
    + ADD COLUMN a text DEFAULT 'it''s', ADD COLUMN b bigint DEFAULT 0, ADD COLUMN c boolean DEFAULT false,
      ADD COLUMN d timestamptz DEFAULT now(), ADD COLUMN e timestamptz DEFAULT CURRENT_TIMESTAMP,
      ADD COLUMN f bigserial, ADD COLUMN g uuid DEFAULT gen_random_uuid(), ADD COLUMN h int GENERATED BY DEFAULT AS IDENTITY,
      ADD COLUMN i text UNIQUE, ADD COLUMN j jsonb NOT NULL DEFAULT '{}';
    GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO app";

/// Each of these lets others change what our role writes, or run code as our role, and nothing of it runs before the
/// refusal. Each trustworthy table is accepted.
#[tokio::test]
async fn tables_that_others_can_act_on_are_refused() -> Result<()> {
    let server = server()?;
    let psql = |sql: &str| server.psql(&sql.replace('+', "ALTER TABLE syncguard_locks"));
    psql(GIFT)?;
    for (bad, mend, says) in ACTING {
        psql(bad).with_context(|| (*bad).to_owned())?;
        let calls = psql("SELECT last_value, is_called FROM calls")?;
        refuses_tables(&server, "app", says).await?;
        // The trust is in the owner of the table, and not in `other`, whose function it is.
        if CODE.iter().any(|word| says.starts_with(word))
            && !bad.contains("TABLE lea")
            && !bad.contains("TABLE led")
            && !bad.contains("query_to_xml")
        {
            let owner =
                psql("SELECT relowner::regrole FROM pg_class WHERE relname = 'syncguard_locks'")?;
            let trusting = PostgresOptions::new().with_trusted_owner(owner.trim());
            let error = accepts_tables(&server, &trusting).await.err();
            let error = error.with_context(|| format!("trusted: {bad}"))?;
            // Of a constraint with an index, the index alone may use the function.
            ensure!(
                error.to_string().contains("runs code that set-up has not made"),
                "{bad}: {error}"
            );
        }
        ensure!(psql("SELECT last_value, is_called FROM calls")? == calls, "called: {bad}");
        psql(mend)?;
        accepts_tables(&server, &PostgresOptions::new())
            .await
            .with_context(|| (*mend).to_owned())?;
    }
    psql(HARMLESS)?;
    accepts_tables(&server, &PostgresOptions::new()).await?;
    psql("CREATE TRIGGER t BEFORE UPDATE ON syncguard_locks FOR EACH ROW EXECUTE FUNCTION f()")?;
    refuses_tables(&server, "app", "the table public.syncguard_locks of team runs code").await?;
    let trusting = PostgresOptions::new().with_trusted_owner("team");
    ensure!(accepts_tables(&server, &trusting).await.is_err(), "a function of another role");
    psql("ALTER FUNCTION f() OWNER TO team")?;
    accepts_tables(&server, &trusting).await?;
    psql("DROP TRIGGER t ON syncguard_locks")?;
    // Our own role may have all rights, and tables of a schema's owner are trusted if the options name the schema.
    psql("GRANT ALL ON syncguard_locks, syncguard_fence_counters TO app")?;
    psql(
        "CREATE SCHEMA app AUTHORIZATION migrator; GRANT USAGE ON SCHEMA app TO app;
         ALTER ROLE app SET search_path = public",
    )?;
    let named = PostgresOptions::new().with_tables("app.locks", "app.fences");
    psql(&format!("SET ROLE migrator; {}", schema_sql(&named)?))?;
    psql("GRANT SELECT, INSERT, UPDATE, DELETE ON app.locks, app.fences TO app")?;
    accepts_tables(&server, &named).await?;
    accepts_tables(&server, &PostgresOptions::new()).await
}
