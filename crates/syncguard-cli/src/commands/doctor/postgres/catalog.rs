//! Queries to the server's catalog. A query that fails reports nothing: the permissions are tried
//! next.

use syncguard::postgres::PostgresBackend;
use syncguard::postgres::tokio_postgres::SimpleQueryMessage;

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
    pub(super) async fn roles_that_create_in(&self, schema: &str) -> String {
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
        if roles.is_empty() { "PUBLIC".to_owned() } else { roles.join(", ") }
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

fn oid(table: &Table) -> String {
    format!("pg_catalog.to_regclass({})", literal(&table.to_string()))
}
