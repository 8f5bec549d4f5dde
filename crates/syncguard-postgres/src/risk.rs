//! The risks of a database and of its tables.

use std::fmt;

/// A finding.
///
/// The risks about [what others can do](Self::is_always_refused) are refused in every mode: see
/// [`PostgresOptions::with_trusted_owner`](crate::PostgresOptions::with_trusted_owner). The names of tables and schemas in
/// them are quoted for SQL.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DurabilityRisk {
    /// The server is a standby: it grants no locks, and its data may be old.
    Standby,
    /// The lock table is not logged: a crash empties it.
    UnloggedLockTable,
    /// The fence table is not logged: a crash empties it, and fences repeat.
    UnloggedFenceTable,
    /// `fsync` is off: a crash of the machine can lose or damage anything.
    FsyncOff,
    /// `full_page_writes` is off: a crash of the machine can damage pages.
    FullPageWritesOff,
    /// A table is no ordinary table: a view, a partitioned table or another table's parent, say.
    #[non_exhaustive]
    SpecialTable {
        /// The table, with its schema.
        table: String,
        /// Its owner.
        owner: String,
    },
    /// A table belongs to a role that our role has no reason to trust: it is neither our role, a role that our role may
    /// become, the owner of the table's schema or of the database, nor a superuser, nor named as the trusted owner. Its
    /// owner decides what happens to locks, and which code runs as our role.
    #[non_exhaustive]
    ForeignTable {
        /// The table, with its schema.
        table: String,
        /// Its owner.
        owner: String,
    },
    /// The schema `"$user"`, in which a table was found, belongs to such a role, which can replace the table.
    #[non_exhaustive]
    ForeignSchema {
        /// The schema.
        schema: String,
        /// Its owner.
        owner: String,
    },
    /// Something on a table runs code that set-up has not made: a trigger, a rule, a constraint, a foreign key that leads
    /// to the table, a default or an expression, a type that is not PostgreSQL's own, an index or statistics over
    /// expressions. It can change what is written, and it runs as our role.
    #[non_exhaustive]
    ActingTable {
        /// The table, with its schema.
        table: String,
        /// Its owner.
        owner: String,
        /// The parts that run the code, such as `the trigger audit`.
        code: String,
    },
    /// Other roles may put triggers or foreign keys on a table.
    #[non_exhaustive]
    OpenTable {
        /// The table, with its schema.
        table: String,
        /// The owner of the table.
        owner: String,
        /// The roles that may, quoted for SQL, with commas between them.
        roles: String,
    },
    /// Row-level security is on for our role: a held lock could look free, so the backend refuses all work.
    #[non_exhaustive]
    HiddenRows {
        /// The table, with its schema.
        table: String,
    },
    /// There is a table with the same name in lower case. Earlier builds used it instead of ours, so a key can have two
    /// holders, one in each table.
    #[non_exhaustive]
    FoldedTable {
        /// The table of the options.
        table: String,
        /// The table in lower case, with its schema.
        folded: String,
        /// True if the table of the options does not exist.
        is_missing: bool,
    },
}

impl DurabilityRisk {
    /// Reads the risks that `hazards.sql` lists: a word, the table, its owner, and what is wrong.
    pub(crate) fn of_words(words: &[String]) -> Vec<Self> {
        let risks = words.chunks_exact(4).filter_map(|words| {
            let [word, table, owner, what] = words else { return None };
            let (table, owner, what) = (table.clone(), owner.clone(), what.clone());
            Some(match word.as_str() {
                "special" => Self::SpecialTable { table, owner },
                "foreign" => Self::ForeignTable { table, owner },
                "schema" => Self::ForeignSchema { schema: table, owner },
                "acts" => Self::ActingTable { table, owner, code: what },
                "open" => Self::OpenTable { table, owner, roles: what },
                "hides" => Self::HiddenRows { table },
                "folded" => {
                    Self::FoldedTable { table, folded: owner, is_missing: what == "missing" }
                }
                _ => return None,
            })
        });
        risks.collect()
    }

    /// True for a risk that is refused in every mode, and not only by strict durability: others can change or hide the
    /// rows of the tables, run code as our role, or hold the same locks in another table.
    #[must_use]
    pub const fn is_always_refused(&self) -> bool {
        !matches!(
            self,
            Self::Standby
                | Self::UnloggedLockTable
                | Self::UnloggedFenceTable
                | Self::FsyncOff
                | Self::FullPageWritesOff
        )
    }

    /// The remedy of the user for a risk that is always refused.
    pub(crate) fn remedy(&self) -> String {
        let owner = match self {
            Self::SpecialTable { owner, .. }
            | Self::ForeignTable { owner, .. }
            | Self::ForeignSchema { owner, .. } => owner,
            // The owner can be one of ours, and the code or the right somebody else's.
            Self::ActingTable { .. } | Self::OpenTable { .. } => {
                return "`syncguard doctor` prints the statements that mend it".to_owned();
            }
            Self::HiddenRows { .. } => {
                return "turn row-level security off for both tables, or give the role BYPASSRLS"
                    .to_owned();
            }
            Self::FoldedTable { folded, is_missing, .. } => {
                let rest = if *is_missing {
                    format!("then rename {folded}, or name it in the options")
                } else {
                    format!("then drop or rename {folded}")
                };
                return format!(
                    "stop all programs that use {folded}, {rest}; `syncguard doctor` prints the statements"
                );
            }
            _ => return String::new(),
        };
        format!(
            "`syncguard doctor` prints the statements that mend it; or, if you know who made this and trust it, name the \
             owner: with_trusted_owner, in a URL trusted_owner={owner}"
        )
    }
}

impl fmt::Display for DurabilityRisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Standby => "the server is a standby",
            Self::UnloggedLockTable => "the lock table is unlogged or temporary",
            Self::UnloggedFenceTable => "the fence table is unlogged or temporary",
            Self::FsyncOff => "fsync is off",
            Self::FullPageWritesOff => "full_page_writes is off",
            Self::SpecialTable { table, .. } => {
                &format!("{table} is a view, a parent or another special table")
            }
            Self::ForeignTable { table, owner } => {
                &format!("the table {table} belongs to {owner}, whose code may run as this role")
            }
            Self::ForeignSchema { schema, owner } => &format!(
                "the schema {schema}, which has the name of this role, belongs to {owner}, which can replace its tables"
            ),
            Self::ActingTable { table, owner, code } => &format!(
                "the table {table} of {owner} runs code that set-up has not made, as this role: {code}"
            ),
            Self::OpenTable { table, roles, .. } => {
                &format!("other roles may put code on the table {table}: {roles}")
            }
            Self::HiddenRows { table } => {
                &format!("row-level security may hide rows of the table {table} from this role")
            }
            Self::FoldedTable { table, folded, is_missing } => &format!(
                "{} {folded}, which earlier builds used under this name: a key can have two holders, one in each table",
                if *is_missing {
                    format!("the table {table} is missing, and there is")
                } else {
                    format!("beside the table {table} there is")
                }
            ),
        };
        f.write_str(&printable(text))
    }
}

/// A name that somebody else may have chosen, for logs and terminals.
pub(crate) fn printable(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for char in name.chars() {
        if matches!(char, '"' | '\'' | '\\') {
            text.push(char);
        } else {
            text.extend(char.escape_debug());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_others_are_printable() {
        let words = ["open", "public.\"App\"", "o", "e\u{1b}[2J\u{202e}ve"].map(str::to_owned);
        let risks = DurabilityRisk::of_words(&words);
        let shown = risks[0].to_string();
        assert!(shown.ends_with(r#"public."App": e\u{1b}[2J\u{202e}ve"#), "{shown}");
        assert!(DurabilityRisk::of_words(&words[1..]).is_empty());
    }
}
