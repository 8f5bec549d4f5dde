//! A fence as a value of SQL.

use std::error::Error;

use bytes::BytesMut;
use syncguard_core::Fence;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

/// A [`Fence`] as a parameter and as a column of your own statements, for `bigint` columns, and for `text` columns
/// with the 15 digits.
///
/// ```no_run
/// use syncguard_postgres::tokio_postgres::{Client, Error};
/// use syncguard_postgres::{Fence, SqlFence};
///
/// /// For `fence bigint NOT NULL DEFAULT 0`. False: a later holder has written, or no account has the id.
/// async fn set_balance(db: &Client, id: i64, balance: i64, fence: Fence) -> Result<bool, Error> {
///     let sql = "UPDATE accounts SET balance = $2, fence = $3 WHERE id = $1 AND fence <= $3";
///     let written = db.execute(sql, &[&id, &balance, &SqlFence(fence)]).await?;
///     Ok(written == 1)
/// }
///
/// async fn last_fence(db: &Client, id: i64) -> Result<Fence, Error> {
///     let row = db.query_one("SELECT fence FROM accounts WHERE id = $1", &[&id]).await?;
///     let SqlFence(fence) = row.try_get(0)?;
///     Ok(fence)
/// }
/// ```
///
/// # Errors
///
/// If a value is no fence, reading it is an error of the driver: a negative number, a number of more than 15
/// digits, or a text that is not exactly 15 digits. If a column can be NULL, read an `Option<SqlFence>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SqlFence(pub Fence);

impl From<Fence> for SqlFence {
    /// Never fails.
    fn from(fence: Fence) -> Self {
        Self(fence)
    }
}

impl From<SqlFence> for Fence {
    /// Never fails.
    fn from(fence: SqlFence) -> Self {
        fence.0
    }
}

fn is_text(kind: &Type) -> bool {
    matches!(*kind, Type::TEXT | Type::VARCHAR)
}

impl ToSql for SqlFence {
    fn to_sql(
        &self,
        kind: &Type,
        buffer: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        if is_text(kind) {
            self.0.to_string().to_sql(kind, buffer)
        } else {
            self.0.as_i64().to_sql(kind, buffer)
        }
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::INT8 || is_text(kind)
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for SqlFence {
    fn from_sql(kind: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        let fence = if is_text(kind) {
            <&str>::from_sql(kind, raw)?.parse()
        } else {
            Fence::try_from(i64::from_sql(kind, raw)?)
        };
        Ok(Self(fence?))
    }

    fn accepts(kind: &Type) -> bool {
        <Self as ToSql>::accepts(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(fence: Fence, kind: &Type) -> BytesMut {
        let mut buffer = BytesMut::new();
        let result = SqlFence(fence).to_sql_checked(kind, &mut buffer);
        assert!(matches!(result, Ok(IsNull::No)));
        buffer
    }

    #[test]
    fn a_fence_goes_into_a_column_and_comes_back() {
        for fence in [Fence::ZERO, Fence::new(7).unwrap(), Fence::MAX] {
            for kind in [Type::INT8, Type::TEXT, Type::VARCHAR] {
                let raw = written(fence, &kind);
                assert_eq!(SqlFence::from_sql(&kind, &raw).unwrap(), SqlFence(fence), "{kind}");
            }
        }
        let seven = Fence::new(7).unwrap();
        assert_eq!(written(seven, &Type::INT8)[..], 7_i64.to_be_bytes());
        assert_eq!(written(seven, &Type::TEXT)[..], *b"000000000000007");
    }

    #[test]
    fn what_is_no_fence_is_refused() {
        for number in [-1, 1_000_000_000_000_000] {
            assert!(SqlFence::from_sql(&Type::INT8, &i64::to_be_bytes(number)).is_err());
        }
        for text in ["", "7", "-00000000000001", "0000000000000007"] {
            assert!(SqlFence::from_sql(&Type::TEXT, text.as_bytes()).is_err(), "{text}");
        }
        for kind in [Type::INT4, Type::FLOAT8, Type::NUMERIC] {
            assert!(SqlFence(Fence::MAX).to_sql_checked(&kind, &mut BytesMut::new()).is_err());
        }
    }
}
