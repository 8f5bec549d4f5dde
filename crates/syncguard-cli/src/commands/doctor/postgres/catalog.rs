//! Queries to the server's catalog. A query that fails reports nothing: the permissions are tried
//! next.

use std::time::Duration;

use syncguard::postgres::tokio_postgres::SimpleQueryMessage;
use syncguard::postgres::{DurabilityRisk, PostgresBackend};

use super::names::{Table, Tables, literal, quoted};

/// The text that PostgreSQL sends for true.
const TRUE: &str = "t";

pub(super) struct Catalog<'a> {
    pub(super) backend: &'a PostgresBackend,
    pub(super) tables: &'a Tables,
}

impl<'a> Catalog<'a> {
    /// The missing tables, if any.
    pub(super) async fn missing_tables(&self) -> Option<Vec<&'a Table>> {
        let mut missing = Vec::new();
        for table in [&self.tables.locks, &self.tables.fences] {
            let sql = format!("SELECT ({}) IS NULL", oid(table));
            if self.first_column(&sql).await?.concat() == TRUE {
                missing.push(table);
            }
        }
        (!missing.is_empty()).then_some(missing)
    }

    /// Returns whether the lock table lacks an index on its lock ids, so that finding one reads the
    /// whole table.
    pub(super) async fn lacks_index(&self) -> bool {
        let locks = oid(&self.tables.locks);
        let sql = format!(
            "SELECT {locks} IS NOT NULL AND NOT EXISTS (
               SELECT FROM pg_catalog.pg_index i JOIN pg_catalog.pg_attribute a
                 ON a.attrelid OPERATOR(pg_catalog.=) i.indrelid
                 AND a.attnum OPERATOR(pg_catalog.=) i.indkey[0]
               WHERE i.indrelid OPERATOR(pg_catalog.=) {locks}
                 AND i.indisvalid AND a.attname OPERATOR(pg_catalog.=) 'lock_id')"
        );
        self.first_column(&sql).await.is_some_and(|first_column| first_column.concat() == TRUE)
    }

    /// The encoding of the database.
    pub(super) async fn encoding(&self) -> Option<String> {
        let sql = "SELECT pg_catalog.getdatabaseencoding()::pg_catalog.text";
        self.first_column(sql).await?.pop()
    }

    /// The roles that may create in a schema, except its owner and this role, quoted for SQL.
    pub(super) async fn roles_that_create_in(&self, schema: &str) -> Option<String> {
        let schema = literal(schema);
        let sql = format!(
            "SELECT CASE WHEN a.grantee OPERATOR(pg_catalog.=) 0 THEN '' ELSE r.rolname::pg_catalog.text END
             FROM pg_catalog.pg_namespace n CROSS JOIN pg_catalog.aclexplode(n.nspacl) a
             LEFT JOIN pg_catalog.pg_roles r ON r.oid OPERATOR(pg_catalog.=) a.grantee
             WHERE n.nspname OPERATOR(pg_catalog.=) {schema}
               AND a.privilege_type OPERATOR(pg_catalog.=) 'CREATE'
               AND a.grantee OPERATOR(pg_catalog.<>) n.nspowner AND r.rolsuper IS NOT TRUE
               AND (r.rolname OPERATOR(pg_catalog.=) current_user) IS NOT TRUE
             GROUP BY 1 ORDER BY 1"
        );
        let roles = self.first_column(&sql).await.unwrap_or_default();
        let roles = roles.iter().map(|role| match role.as_str() {
            "" => "PUBLIC".to_owned(),
            role => quoted(role),
        });
        let roles: Vec<String> = roles.collect();
        (!roles.is_empty()).then(|| roles.join(", "))
    }

    /// The statements that take a danger for the tables away.
    pub(super) async fn mends(&self, risk: DurabilityRisk) -> Option<String> {
        let (advice, sql) = match risk {
            DurabilityRisk::ForeignTable => (FOREIGN, OWNERS),
            DurabilityRisk::ActingTable => ("", ACTING),
            DurabilityRisk::OpenTable => ("", OPEN),
            DurabilityRisk::HiddenRows => ("", HIDDEN),
            DurabilityRisk::SpecialTable => (SPECIAL, ""),
            _ => return None,
        };
        let statements = self.statements(sql).await.unwrap_or_default();
        Some([advice, &statements].concat())
    }

    /// The grants that this role lacks, and no more.
    pub(super) async fn grants(&self) -> Option<String> {
        self.statements(GRANTS).await
    }

    /// The statements after which only roles that use locks can read them, if others can.
    pub(super) async fn readers(&self) -> Option<String> {
        self.statements(READERS).await
    }

    /// The sessions that hold the advisory lock of a key for longer than a statement of this library does.
    pub(super) async fn sessions_in_the_way(&self) -> Option<String> {
        let mut held = self.first_column(&self.render(ADVISORY)).await?;
        if !held.is_empty() {
            tokio::time::sleep(LONGER_THAN_A_STATEMENT).await;
            let still = self.first_column(&self.render(ADVISORY)).await?;
            held.retain(|session| still.contains(session));
        }
        let sessions = held.iter().filter_map(|session| session.split(' ').next());
        let sessions: Vec<&str> = sessions.collect();
        (!sessions.is_empty()).then(|| sessions.join(", "))
    }

    async fn statements(&self, sql: &str) -> Option<String> {
        if sql.is_empty() {
            return None;
        }
        let statements = self.first_column(&self.render(sql)).await?;
        (!statements.is_empty()).then(|| statements.join("; "))
    }

    fn render(&self, sql: &str) -> String {
        let (locks, fences) = (oid(&self.tables.locks), oid(&self.tables.fences));
        let operators = [("{=}", "="), ("{<>}", "<>"), ("{&}", "&"), ("{||}", "||"), ("{<}", "<")];
        let sql = operators.iter().fold(sql.to_owned(), |sql, (place, operator)| {
            sql.replace(place, &format!("OPERATOR(pg_catalog.{operator})"))
        });
        sql.replace("{both}", &format!("ANY (ARRAY[{locks}, {fences}]::pg_catalog.oid[])"))
            .replace("{locks}", &locks)
            .replace("{fences}", &fences)
            .replace("{fence_table}", &self.tables.fences.to_string())
    }

    /// The first column of all rows.
    async fn first_column(&self, sql: &str) -> Option<Vec<String>> {
        let client = self.backend.pool().get().await.ok()?;
        // A simple query needs no prepared statement.
        let messages = client.simple_query(sql).await.ok()?;
        let rows = messages.into_iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        });
        Some(rows.collect())
    }
}

const FOREIGN: &str = "unless you know who made the tables: name others with lock_table and fence_table in the URL, and add setup_schema=true; if you know: ";

const SPECIAL: &str =
    "name ordinary tables with lock_table and fence_table in the URL, and add setup_schema=true";

const OWNERS: &str = "SELECT pg_catalog.format('ALTER TABLE %s OWNER TO %I instead of %I', c.oid::pg_catalog.regclass,
      pg_catalog.pg_get_userbyid(d.datdba), pg_catalog.pg_get_userbyid(c.relowner))
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_database d ON d.datname {=} pg_catalog.current_database()
    WHERE c.oid {=} {both} AND c.relowner {<>} d.datdba
    UNION ALL
    SELECT DISTINCT pg_catalog.format('ALTER SCHEMA %I OWNER TO %I instead of %I', n.nspname, current_user,
      pg_catalog.pg_get_userbyid(n.nspowner))
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid {=} c.relnamespace
    WHERE c.oid {=} {both} AND n.nspname {=} current_user
      AND pg_catalog.pg_get_userbyid(n.nspowner) {<>} current_user";

const ACTING: &str = "SELECT pg_catalog.format('DROP TRIGGER %I ON %s', t.tgname, t.tgrelid::pg_catalog.regclass)
    FROM pg_catalog.pg_trigger t WHERE t.tgrelid {=} {both} AND NOT t.tgisinternal AND t.tgenabled {<>} 'D'
    UNION ALL
    SELECT pg_catalog.format('DROP RULE %I ON %s', w.rulename, w.ev_class::pg_catalog.regclass)
    FROM pg_catalog.pg_rewrite w WHERE w.ev_class {=} {both} AND w.rulename {<>} '_RETURN'
    UNION ALL
    SELECT pg_catalog.format('ALTER TABLE %s DROP CONSTRAINT %I', k.conrelid::pg_catalog.regclass, k.conname)
    FROM pg_catalog.pg_constraint k WHERE k.confrelid {=} {both} AND k.contype {=} 'f'";

const OPEN: &str = "SELECT pg_catalog.format('REVOKE %s ON %s FROM %s', a.privilege_type, c.oid::pg_catalog.regclass,
      coalesce(pg_catalog.quote_ident(r.rolname), 'PUBLIC'))
    FROM pg_catalog.pg_class c CROSS JOIN pg_catalog.aclexplode(c.relacl) a
    LEFT JOIN pg_catalog.pg_roles r ON r.oid {=} a.grantee
    WHERE c.oid {=} {both} AND (a.privilege_type {=} 'TRIGGER' OR a.privilege_type {=} 'REFERENCES')
      AND a.grantee {<>} c.relowner AND r.rolsuper IS NOT TRUE AND (r.rolname {=} current_user) IS NOT TRUE";

const HIDDEN: &str = "SELECT pg_catalog.format('ALTER TABLE %s DISABLE ROW LEVEL SECURITY', c.oid::pg_catalog.regclass)
    FROM pg_catalog.pg_class c WHERE c.oid {=} {both} AND c.relrowsecurity";

/// Rights on all columns, one by one, are as good as those on the table.
const GRANTS: &str = "SELECT pg_catalog.format('GRANT %s ON %s TO %I',
      pg_catalog.string_agg(wanted.privilege, ', ' ORDER BY wanted.position),
      wanted.oid::pg_catalog.regclass, current_user)
    FROM (VALUES ({locks}::pg_catalog.oid, 1, 'SELECT'), ({locks}, 2, 'INSERT'), ({locks}, 3, 'UPDATE'), ({locks}, 4, 'DELETE'),
      ({fences}, 5, 'SELECT'), ({fences}, 6, 'INSERT'), ({fences}, 7, 'UPDATE')) AS wanted (oid, position, privilege)
    WHERE NOT CASE WHEN wanted.privilege {=} 'DELETE' THEN pg_catalog.has_table_privilege(wanted.oid, wanted.privilege)
      ELSE pg_catalog.has_any_column_privilege(wanted.oid, wanted.privilege) END
    GROUP BY wanted.oid ORDER BY pg_catalog.min(wanted.position)";

const READERS: &str =
    "SELECT pg_catalog.format('REVOKE SELECT ON %s FROM %s', c.oid::pg_catalog.regclass,
      coalesce(pg_catalog.quote_ident(r.rolname), 'PUBLIC'))
    FROM pg_catalog.pg_class c CROSS JOIN pg_catalog.aclexplode(c.relacl) a
    LEFT JOIN pg_catalog.pg_roles r ON r.oid {=} a.grantee
    WHERE c.oid {=} {both} AND a.privilege_type {=} 'SELECT' AND a.grantee {<>} c.relowner
      AND r.rolsuper IS NOT TRUE AND (r.rolname {=} current_user) IS NOT TRUE
      AND NOT EXISTS (SELECT FROM pg_catalog.aclexplode(c.relacl) u
        WHERE u.grantee {=} a.grantee AND u.privilege_type {=} 'UPDATE')";

/// An advisory lock of a key that was ever used: its session, and the transaction that holds it.
const ADVISORY: &str = "SELECT DISTINCT l.pid::pg_catalog.text {||} ' ' {||} l.virtualtransaction
    FROM pg_catalog.pg_locks l
    JOIN pg_catalog.pg_database d ON d.oid {=} l.database AND d.datname {=} pg_catalog.current_database()
    JOIN (SELECT pg_catalog.hashtext(pg_catalog.substr(c.fence_key, 7))::bigint AS number FROM {fence_table} c) k
      ON l.objid::bigint {=} (k.number {&} 4294967295)
      AND l.classid::bigint {=} CASE WHEN k.number {<} 0 THEN 4294967295 ELSE 0 END
    WHERE l.locktype {=} 'advisory' AND l.objsubid {=} 1 AND l.granted";

/// Half of the statement timeout bounds the waits of a statement that has the advisory lock.
const LONGER_THAN_A_STATEMENT: Duration = Duration::from_secs(3);

fn oid(table: &Table) -> String {
    format!("pg_catalog.to_regclass({})", literal(&table.to_string()))
}
