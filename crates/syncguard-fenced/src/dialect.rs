//! The dialects of SQL.

/// A dialect of SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dialect {
    /// PostgreSQL. Parameters are `$1`, `$2`; the answer is the one column of the one row.
    Postgres,
    /// MySQL and MariaDB, on a table of InnoDB. Parameters are `?`; the answer is the *last insert id* of the result, which
    /// the driver has without another request: `last_insert_id()` of `sqlx`, `mysql` and `mysql_async`.
    MySql,
    /// SQLite 3.35 or later. Parameters are `?1`, `?2`; the answer is the one column of the one row.
    Sqlite,
}
