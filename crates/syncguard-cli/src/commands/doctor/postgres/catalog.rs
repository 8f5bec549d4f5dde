//! Queries to the server's catalog. A query that fails reports nothing: the permissions are tried
//! next.

use std::time::Duration;

use syncguard::postgres::PostgresBackend;
use syncguard::postgres::tokio_postgres::SimpleQueryMessage;

use super::names::{Table, Tables, literal, quoted};

/// The text that PostgreSQL sends for true.
const TRUE: &str = "t";

pub(super) struct Catalog<'a> {
    pub(super) backend: &'a PostgresBackend,
    pub(super) tables: &'a Tables,
    /// The owner of the tables whom the URL trusts, or an empty text.
    pub(super) trusted: &'a str,
}

impl<'a> Catalog<'a> {
    /// The missing tables, if any.
    pub(super) async fn missing_tables(&self) -> Option<Vec<&'a Table>> {
        let mut missing = Vec::new();
        for table in [&self.tables.locks, &self.tables.fences] {
            let sql = format!("SELECT ({}) IS NULL", oid(&table.to_string()));
            if self.first_column(&sql).await?.concat() == TRUE {
                missing.push(table);
            }
        }
        (!missing.is_empty()).then_some(missing)
    }

    /// Returns whether the lock table lacks an index on its lock ids, so that finding one reads the
    /// whole table.
    pub(super) async fn lacks_index(&self) -> bool {
        let locks = oid(&self.tables.locks.to_string());
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

    /// The statement after which no other role may create in a schema.
    pub(super) async fn close(&self, schema: &str) -> String {
        let others = self.roles_that_create_in(schema).await;
        let schema = quoted(schema);
        // Without such roles, the schema has the name of our role and belongs to another one.
        others.map_or_else(
            || format!("ALTER SCHEMA {schema} OWNER TO CURRENT_USER"),
            |others| format!("REVOKE CREATE ON SCHEMA {schema} FROM {others}"),
        )
    }

    /// The roles that may create in a schema, except its owner and this role, quoted for SQL.
    async fn roles_that_create_in(&self, schema: &str) -> Option<String> {
        let (schema, trusted) = (literal(schema), literal(self.trusted));
        let sql = format!(
            "SELECT CASE WHEN a.grantee OPERATOR(pg_catalog.=) 0 THEN '' ELSE r.rolname::pg_catalog.text END
             FROM pg_catalog.pg_namespace n CROSS JOIN pg_catalog.aclexplode(n.nspacl) a
             LEFT JOIN pg_catalog.pg_roles r ON r.oid OPERATOR(pg_catalog.=) a.grantee
             WHERE n.nspname OPERATOR(pg_catalog.=) {schema}
               AND a.privilege_type OPERATOR(pg_catalog.=) 'CREATE'
               AND a.grantee OPERATOR(pg_catalog.<>) n.nspowner AND r.rolsuper IS NOT TRUE
               AND (r.rolname OPERATOR(pg_catalog.=) current_user) IS NOT TRUE
               AND (r.rolname OPERATOR(pg_catalog.=) {trusted}) IS NOT TRUE
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

    /// This role, quoted for SQL.
    pub(super) async fn role(&self) -> Option<String> {
        self.first_column("SELECT pg_catalog.quote_ident(current_user)").await?.pop()
    }

    /// The columns of an ordinary table, given its name as SQL. `None` for other relations.
    pub(super) async fn columns(&self, table: &str) -> Option<Vec<String>> {
        let sql = "SELECT a.attname::pg_catalog.text FROM pg_catalog.pg_attribute a
            JOIN pg_catalog.pg_class c ON c.oid {=} a.attrelid
            WHERE c.oid {=} {table} AND c.relkind {=} 'r' AND NOT a.attisdropped";
        let columns = self.first_column(&self.render(&sql.replace("{table}", &oid(table)))).await?;
        (!columns.is_empty()).then_some(columns)
    }

    /// The schema of one of our tables, quoted for SQL.
    pub(super) async fn schema(&self, table: &Table) -> Option<String> {
        self.schema_of(&table.to_string()).await
    }

    /// The same, given the name of the table as SQL.
    pub(super) async fn schema_of(&self, table: &str) -> Option<String> {
        let sql = "SELECT pg_catalog.quote_ident(n.nspname) FROM pg_catalog.pg_class c
            JOIN pg_catalog.pg_namespace n ON n.oid {=} c.relnamespace WHERE c.oid {=} {table}";
        self.first_column(&self.render(&sql.replace("{table}", &oid(table)))).await?.pop()
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
        let statements = self.first_column(&self.render(sql)).await?;
        (!statements.is_empty()).then(|| statements.join("; "))
    }

    fn render(&self, sql: &str) -> String {
        let [locks, fences] =
            [&self.tables.locks, &self.tables.fences].map(|table| oid(&table.to_string()));
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

fn oid(table: &str) -> String {
    format!("pg_catalog.to_regclass({})", literal(table))
}
