//! The statements of SQL.

use syncguard_core::LockError;

use crate::dialect::Dialect;
use crate::name;

/// A parameter of a [`FenceStatement`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Parameter {
    /// The key of the row: the name of the resource as a text, or a value of the key column's type.
    Key,
    /// The fence as a signed 64-bit integer: [`Fence::as_i64`](crate::Fence::as_i64). Its 15 digits as a text work too, where
    /// the driver lets a text be bound.
    Fence,
}

/// A statement that moves the highest fence of a row forward, and answers with it.
///
/// Run [`sql`](Self::sql) with [`parameters`](Self::parameters) first in your transaction, and give the answer to
/// [`check`](crate::check). The row stays locked until the transaction ends. A stale writer changes nothing by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FenceStatement {
    sql: String,
    parameters: &'static [Parameter],
}

impl FenceStatement {
    /// A row for each resource, in a table that [`create_table`] makes. The first write makes the row.
    ///
    /// The table is `table` or `schema.table`. Name the schema on PostgreSQL, so that no search path leads to another
    /// table: the statement then means the same whatever the search path is. Names are quoted, so `Fences` is not the table
    /// `fences` of PostgreSQL.
    ///
    /// ```
    /// use syncguard_fenced::{Dialect, FenceStatement};
    ///
    /// let statement = FenceStatement::for_rows(Dialect::MySql, "fences")?;
    /// assert_eq!(
    ///     statement.sql(),
    ///     "INSERT INTO `fences` (`resource`, `fence`) VALUES (?, LAST_INSERT_ID(CAST(? AS SIGNED))) \
    ///      ON DUPLICATE KEY UPDATE \
    ///      `fence` = LAST_INSERT_ID(GREATEST(COALESCE(CAST(`fence` AS SIGNED), 0), COALESCE(CAST(? AS SIGNED), 0)))"
    /// );
    /// # Ok::<(), syncguard_fenced::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a bad name.
    pub fn for_rows(dialect: Dialect, table: &str) -> Result<Self, LockError> {
        use Parameter::{Fence, Key};
        let table = name::table(dialect, table)?;
        Ok(match dialect {
            Dialect::Postgres => Self {
                sql: format!(
                    "INSERT INTO {table} AS f (\"resource\", \"fence\") VALUES ($1, CAST($2 AS pg_catalog.int8)) \
                     ON CONFLICT (\"resource\") DO UPDATE \
                     SET \"fence\" = GREATEST(f.\"fence\", CAST(excluded.\"fence\" AS pg_catalog.int8)) \
                     RETURNING CAST(f.\"fence\" AS pg_catalog.int8)"
                ),
                parameters: &[Key, Fence],
            },
            Dialect::MySql => Self {
                sql: format!(
                    "INSERT INTO {table} (`resource`, `fence`) VALUES (?, LAST_INSERT_ID(CAST(? AS SIGNED))) \
                     ON DUPLICATE KEY UPDATE `fence` = LAST_INSERT_ID({})",
                    greatest("`fence`")
                ),
                parameters: &[Key, Fence, Fence],
            },
            Dialect::Sqlite => Self {
                sql: format!(
                    "INSERT INTO {table} AS f (\"resource\", \"fence\") \
                     VALUES (CAST(?1 AS TEXT), CAST(?2 AS INTEGER)) \
                     ON CONFLICT (\"resource\") DO UPDATE SET \"fence\" = {} RETURNING CAST(\"fence\" AS INTEGER) AS \"fence\"",
                    max("f.\"fence\"", "excluded.\"fence\"")
                ),
                parameters: &[Key, Fence],
            },
        })
    }

    /// A column of your own table, which holds the fence of each row. The rows are there already: no row in the answer, or a
    /// last insert id of 0 on MySQL, means that none has the key.
    ///
    /// `key` is a column with a unique value for each row, and `fence` a `BIGINT`. NULL stands for no fence yet, so a column
    /// that was added by `ALTER TABLE … ADD COLUMN fence BIGINT` is ready at once. If a column of other numbers cannot hold a
    /// fence, the writer gets an error or is refused. PostgreSQL refuses a column of texts; elsewhere it needs room for 15
    /// characters.
    ///
    /// **On MySQL and MariaDB**:
    ///
    /// - Bind the fence first and the key second, as [`parameters`](Self::parameters) says.
    /// - A trigger of the table that inserts into a table with `AUTO_INCREMENT` takes the answer out of the result, and every
    ///   writer is refused. Ask by `SELECT LAST_INSERT_ID()` there.
    /// - The statement is an error in the mode `SIMULTANEOUS_ASSIGNMENT`.
    ///
    /// A write of a single row needs no transaction: put `fence = $2` into its `SET` and `fence <= $2` into its `WHERE`. Bind
    /// a number there; on SQLite, write `CAST(?2 AS INTEGER)`, since every blob counts as larger than a number. If the column
    /// can be NULL, the condition is `(fence IS NULL OR fence <= $2)`.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a bad name.
    pub fn for_column(
        dialect: Dialect,
        table: &str,
        key: &str,
        fence: &str,
    ) -> Result<Self, LockError> {
        use Parameter::{Fence, Key};
        let table = name::table(dialect, table)?;
        let (key, fence) = (name::column(dialect, key)?, name::column(dialect, fence)?);
        Ok(match dialect {
            // GREATEST ignores NULL. Operators are looked up in the search path, so this one names its schema.
            Dialect::Postgres => Self {
                sql: format!(
                    "UPDATE {table} AS f SET {fence} = GREATEST(f.{fence}, CAST($2 AS pg_catalog.int8)) \
                     WHERE f.{key} OPERATOR(pg_catalog.=) $1 RETURNING CAST(f.{fence} AS pg_catalog.int8)"
                ),
                parameters: &[Key, Fence],
            },
            Dialect::MySql => Self {
                sql: format!(
                    "UPDATE {table} SET {fence} = {}, {fence} = LAST_INSERT_ID({fence}) \
                     WHERE {key} = ? ORDER BY CAST({fence} AS SIGNED)",
                    greatest(&fence)
                ),
                parameters: &[Fence, Key],
            },
            // With a table before it, a misspelt column is an error, and not a text.
            Dialect::Sqlite => Self {
                sql: format!(
                    "UPDATE {table} AS f SET {fence} = {} WHERE f.{key} = ?1 \
                     RETURNING CAST({fence} AS INTEGER) AS {fence}",
                    max(&format!("f.{fence}"), "?2")
                ),
                parameters: &[Key, Fence],
            },
        })
    }

    /// The text of the statement.
    #[must_use]
    pub fn sql(&self) -> &str {
        &self.sql
    }

    /// The values to bind, in this order.
    #[must_use]
    pub fn parameters(&self) -> &'static [Parameter] {
        self.parameters
    }
}

/// MySQL compares a text with a number in different ways, clamps what does not fit into a column unless it is strict, and
/// answers NULL if one value is NULL. Assignments go from left to right, so a second one sees what the column holds after the first.
fn greatest(fence: &str) -> String {
    format!("GREATEST(COALESCE(CAST({fence} AS SIGNED), 0), COALESCE(CAST(? AS SIGNED), 0))")
}

/// SQLite takes a value of any type, orders texts and blobs behind all numbers, and answers NULL if one value is NULL.
fn max(fence: &str, parameter: &str) -> String {
    let number = |value| format!("COALESCE(CAST({value} AS INTEGER), 0)");
    format!("max({}, {})", number(fence), number(parameter))
}

/// The statement that creates the table for [`FenceStatement::for_rows`], unless it is there.
///
/// A resource is a text of any length on PostgreSQL and SQLite, and of at most 512 bytes on MySQL: every key of a lock fits.
/// Resources are compared byte by byte. Rows must not be deleted for as long as their data lives.
///
/// # Errors
///
/// `InvalidArgument` for a bad name.
pub fn create_table(dialect: Dialect, table: &str) -> Result<String, LockError> {
    let table = name::table(dialect, table)?;
    let columns = match dialect {
        // The collation keeps the index valid when the system's collations change.
        Dialect::Postgres => {
            "(\"resource\" pg_catalog.text COLLATE pg_catalog.\"C\" PRIMARY KEY, \"fence\" pg_catalog.int8 NOT NULL)"
        }
        Dialect::MySql => {
            "(`resource` VARBINARY(512) NOT NULL PRIMARY KEY, `fence` BIGINT NOT NULL) ENGINE = InnoDB"
        }
        Dialect::Sqlite => {
            "(\"resource\" TEXT NOT NULL PRIMARY KEY, \"fence\" INTEGER NOT NULL) WITHOUT ROWID"
        }
    };
    Ok(format!("CREATE TABLE IF NOT EXISTS {table} {columns}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_statement_has_as_many_places_as_parameters() {
        for dialect in [Dialect::Postgres, Dialect::MySql, Dialect::Sqlite] {
            let column =
                FenceStatement::for_column(dialect, "app.accounts", "id", "fence").unwrap();
            for statement in [FenceStatement::for_rows(dialect, "fences").unwrap(), column] {
                let mark = if dialect == Dialect::Postgres { '$' } else { '?' };
                let places = statement.sql().matches(mark).count();
                assert_eq!(places, statement.parameters().len(), "{}", statement.sql());
            }
        }
    }

    #[test]
    fn no_name_gets_into_a_statement_unchecked() {
        for dialect in [Dialect::Postgres, Dialect::MySql, Dialect::Sqlite] {
            let column = |table, key, fence| FenceStatement::for_column(dialect, table, key, fence);
            assert!(create_table(dialect, "a;b").is_err());
            assert!(FenceStatement::for_rows(dialect, "a;b").is_err());
            assert!(column("a;b", "id", "fence").is_err());
            assert!(column("a", "i d", "fence").is_err());
            assert!(column("a", "id", "fence\"").is_err());
        }
    }
}
