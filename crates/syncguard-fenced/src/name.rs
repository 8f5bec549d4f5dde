//! Names of tables and columns.

use syncguard_core::LockError;

use crate::dialect::Dialect;

/// The longest name in PostgreSQL; MySQL allows one byte more.
const MAX_BYTES: usize = 63;

/// `table` or `schema.table`, quoted.
pub(crate) fn table(dialect: Dialect, text: &str) -> Result<String, LockError> {
    match text.split_once('.') {
        Some((schema, table)) => Ok(format!(
            "{}.{}",
            quoted(dialect, "table", schema)?,
            quoted(dialect, "table", table)?
        )),
        None => quoted(dialect, "table", text),
    }
}

/// A column, quoted.
pub(crate) fn column(dialect: Dialect, text: &str) -> Result<String, LockError> {
    quoted(dialect, "column", text)
}

fn quoted(dialect: Dialect, what: &str, text: &str) -> Result<String, LockError> {
    let mut bytes = text.bytes();
    let first = bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    let rest = bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !first || !rest || text.len() > MAX_BYTES {
        let before = if what == "table" {
            ", after a schema of the same kind and a dot if needed"
        } else {
            ""
        };
        return Err(LockError::invalid_argument(format!(
            "bad name of a {what}; allowed are up to {MAX_BYTES} letters, digits and _ that do not start with a \
             digit{before}"
        )));
    }
    let quote = if dialect == Dialect::MySql { '`' } else { '"' };
    Ok(format!("{quote}{text}{quote}"))
}

#[cfg(test)]
mod tests {
    use syncguard_core::ErrorCode;

    use super::*;

    #[test]
    fn names_are_quoted_and_keep_their_capitals() {
        for (dialect, text, expected) in [
            (Dialect::Postgres, "Ops.order", "\"Ops\".\"order\""),
            (Dialect::Sqlite, "main.fences", "\"main\".\"fences\""),
            (Dialect::MySql, "order", "`order`"),
        ] {
            assert_eq!(table(dialect, text).unwrap(), expected);
        }
    }

    #[test]
    fn bad_names_are_refused() {
        let long = "t".repeat(64);
        for text in
            ["", ".", "a.", ".a", "a.b.c", "1a", "a b", "a\"b", "a`b", "ä", "a;--", "a\0", &long]
        {
            for dialect in [Dialect::Postgres, Dialect::MySql, Dialect::Sqlite] {
                for result in [table(dialect, text), column(dialect, text)] {
                    assert_eq!(result.unwrap_err().code(), ErrorCode::InvalidArgument, "{text:?}");
                }
            }
        }
        assert!(column(Dialect::Postgres, "a.b").is_err());
        assert!(column(Dialect::Postgres, &long[1..]).is_ok());
    }
}
