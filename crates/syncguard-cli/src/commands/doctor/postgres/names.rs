//! Names of tables, schemas and roles, quoted for SQL.

use std::fmt;

use syncguard::LockError;
use syncguard::authoring::backend_url::BackendUrl;

/// The name of a table, with or without a schema. `Display` quotes it for SQL.
pub(super) struct Table(Vec<String>);

impl Table {
    fn of(name: &str) -> Self {
        Self(name.split('.').map(str::to_owned).collect())
    }

    /// The name as it stands in the options.
    pub(super) fn in_options(&self) -> String {
        self.0.join(".")
    }

    /// The name with its schema, given the schema, quoted for SQL, in which the table is found.
    pub(super) fn within(&self, schema: &str) -> String {
        if self.0.len() > 1 { self.to_string() } else { format!("{schema}.{self}") }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self.0.iter().map(|part| quoted(part)).collect();
        f.write_str(&parts.join("."))
    }
}

/// The tables of a store.
pub(super) struct Tables {
    pub(super) locks: Table,
    pub(super) fences: Table,
}

impl Tables {
    pub(super) fn of(url: &BackendUrl<'_>) -> Result<Self, LockError> {
        let table = |name, default: &str| {
            let given = url.text(name)?;
            Ok::<_, LockError>(Table::of(given.as_deref().unwrap_or(default)))
        };
        Ok(Self {
            locks: table("lock_table", "syncguard_locks")?,
            fences: table("fence_table", "syncguard_fence_counters")?,
        })
    }
}

/// Quotes a name, unless it is known to need no quotes. The keywords of SQL depend on the version
/// of the server, so all other names are quoted.
pub(super) fn quoted(name: &str) -> String {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_lowercase() || b"_".contains(&byte));
    if is_plain && (name == "public" || name.starts_with("syncguard")) {
        return name.to_owned();
    }
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A string literal of SQL.
pub(super) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_typed_with_quotes_where_they_need_them() {
        for (name, typed) in [
            ("syncguard_locks", "syncguard_locks"),
            ("Ops.order", r#""Ops"."order""#),
            ("public.syncguard_locks", "public.syncguard_locks"),
        ] {
            assert_eq!(Table::of(name).to_string(), typed);
        }
        assert_eq!(quoted("Odd \"Name"), r#""Odd ""Name""#);
        assert_eq!(literal("it's"), "'it''s'");
    }
}
