//! The SQL statements, with table names and constants filled in.

use syncguard_core::Fence;
use syncguard_core::authoring::CLEAN_UP_GUARD;
use syncguard_core::contract::TIME_TOLERANCE;
use tokio_postgres::types::Type;

use crate::record;
use crate::settings::{Sessions, Settings};

/// A statement and the types of its parameters.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is one property of a statement")]
pub(crate) struct Statement {
    pub(crate) sql: String,
    pub(crate) types: &'static [Type],
    /// True if the statement may have changed something when its answer is lost.
    pub(crate) writes: bool,
    /// For a statement whose last parameter is a deadline, which is filled in when it is sent: the column that is NULL if
    /// nothing was written. The column `judged_at_ms` has the server's time when it compared the deadline, if it got that
    /// far.
    pub(crate) written: Option<&'static str>,
    /// True if the first parameter is a lock id, or several, and the column `asked` of the answer repeats it. PgBouncer before
    /// 1.21 may pass on the answer to the statement of another client.
    pub(crate) repeats_id: bool,
    /// True if the statement is sent again on another connection after its answer was lost. False for an extend:
    /// its first sending may arrive late, and undo a later extend.
    pub(crate) is_sent_again: bool,
    /// True if losing against other sessions again and again is an answer: a rival has the lock.
    pub(crate) yields_to_rivals: bool,
}

/// The statements of a backend.
#[derive(Debug)]
pub(crate) struct Statements {
    /// For a key with a counter and without a lock.
    pub(crate) acquire_usual: Statement,
    pub(crate) acquire: Statement,
    /// For a lock table without the column for holders.
    pub(crate) acquire_without_holder: Statement,
    pub(crate) release_usual: Statement,
    pub(crate) release: Statement,
    pub(crate) release_counted: Statement,
    pub(crate) extend: Statement,
    pub(crate) extend_many: Statement,
    /// `lookup_by_key` for a lock table with the column for holders, at three quarters of its cost.
    pub(crate) look: Statement,
    pub(crate) lookup_by_key: Statement,
    pub(crate) lookup_by_lock_id: Statement,
    pub(crate) cleanup: Statement,
    pub(crate) check_fence: Statement,
    pub(crate) settle: Statement,
    pub(crate) list_locks: Statement,
    pub(crate) list_counters: Statement,
    pub(crate) counter: Statement,
    pub(crate) raise_counter: Statement,
}

impl Statements {
    pub(crate) fn new(settings: &Settings) -> Self {
        let statement = |sql: &str, types, writes, written: Option<&'static str>| Statement {
            sql: render(sql, settings),
            types,
            writes,
            written,
            repeats_id: written.is_some(),
            is_sent_again: true,
            yields_to_rivals: false,
        };
        let reads = |sql: &str, types| statement(sql, types, false, None);
        let writes = |sql: &str, types| statement(sql, types, true, None);
        let writes_in_time = |sql: &str, types, written| statement(sql, types, true, Some(written));
        let acquire = |keeps_holders| {
            let sql = with_holder(include_str!("sql/acquire.sql"), keeps_holders);
            Statement { yields_to_rivals: true, ..writes_in_time(&sql, ACQUIRE, TAKEN) }
        };
        Self {
            acquire_usual: writes_in_time(
                &with_holder(include_str!("sql/acquire_usual.sql"), true),
                USUAL_ACQUIRE,
                TAKEN,
            ),
            acquire: acquire(true),
            acquire_without_holder: acquire(false),
            release_usual: writes_in_time(
                include_str!("sql/release_usual.sql"),
                &[Type::TEXT, Type::INT8],
                RELEASED,
            ),
            release: writes_in_time(
                include_str!("sql/release.sql"),
                &[Type::TEXT, Type::INT8],
                RELEASED,
            ),
            release_counted: writes_in_time(
                include_str!("sql/release_counted.sql"),
                &[Type::TEXT, Type::TEXT, Type::TEXT, Type::TEXT, Type::INT8, Type::INT8],
                RELEASED,
            ),
            extend: Statement {
                is_sent_again: false,
                ..writes_in_time(
                    include_str!("sql/extend.sql"),
                    &[Type::TEXT, Type::INT8, Type::INT8, Type::INT8],
                    EXTENDED,
                )
            },
            extend_many: Statement {
                is_sent_again: false,
                ..writes_in_time(
                    include_str!("sql/extend_many.sql"),
                    &[Type::TEXT_ARRAY, Type::INT8_ARRAY, Type::INT8_ARRAY, Type::INT8],
                    EXTENDED,
                )
            },
            look: reads(&with_holder(include_str!("sql/lookup_by_key.sql"), true), &[Type::TEXT]),
            lookup_by_key: reads(include_str!("sql/lookup_by_key.sql"), &[Type::TEXT]),
            lookup_by_lock_id: reads(include_str!("sql/lookup_by_lock_id.sql"), &[Type::TEXT]),
            cleanup: writes(include_str!("sql/cleanup.sql"), &[Type::TEXT]),
            check_fence: reads(include_str!("sql/check_fence.sql"), &[Type::TEXT, Type::TEXT]),
            settle: Statement {
                repeats_id: true,
                ..writes(include_str!("sql/settle.sql"), &[Type::TEXT, Type::TEXT])
            },
            list_locks: reads(include_str!("sql/list_locks.sql"), PAGE),
            list_counters: reads(include_str!("sql/list_counters.sql"), PAGE),
            counter: reads(include_str!("sql/counter.sql"), &[Type::TEXT]),
            raise_counter: writes(
                include_str!("sql/raise_counter.sql"),
                &[Type::TEXT, Type::TEXT, Type::INT8],
            ),
        }
    }
}

/// The columns that say what an acquire, a release and an extend have written.
pub(crate) const TAKEN: &str = "taken_expires_at_ms";
pub(crate) const RELEASED: &str = "released";
pub(crate) const EXTENDED: &str = "extended_expires_at_ms";

/// The parameters of an acquire.
const ACQUIRE: &[Type] = &[
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::INT8,
    Type::TEXT,
    Type::INT8,
    Type::INT8,
    Type::INT8,
    Type::INT8,
];

/// Without the fence window.
const USUAL_ACQUIRE: &[Type] = ACQUIRE.split_at(7).0;

/// Fills in the column for holders, which an acquire reads and writes. The fence in the column shows the lock of
/// the holder: clients that do not know the column leave it unchanged.
fn with_holder(sql: &str, is_kept: bool) -> String {
    let [read, column, value, set] = if is_kept {
        [
            "l.holder",
            ", holder",
            ", pg_catalog.lpad(numbered.fence::pg_catalog.text, 15, '0') {||} ' ' {||} $6",
            ", holder = excluded.holder",
        ]
    } else {
        ["NULL::pg_catalog.text", "", "", ""]
    };
    sql.replace("{holder}", read)
        .replace("{holder_column}", column)
        .replace("{holder_value}", value)
        .replace("{holder_set}", set)
}

/// The parameters of a page.
const PAGE: &[Type] = &[Type::TEXT, Type::TEXT, Type::TEXT, Type::TEXT, Type::INT8];

/// Fills in the placeholders of a statement, and drops its comments.
pub(crate) fn render(sql: &str, settings: &Settings) -> String {
    let tables = &settings.tables;
    let tolerance = TIME_TOLERANCE.as_millis();
    let signal = if settings.signals.are_on {
        without_comments(include_str!("sql/signal.sql"))
    } else {
        "NULL".to_owned()
    };
    let (waits, waits_are_bounded) = match settings.sessions {
        Sessions::Unchanged => (BOUNDED_WAITS, " AND coalesce({waits}, '') {<>} '-'"),
        Sessions::SetUp => ("NULL", ""),
    };
    let mut sql = without_comments(sql)
        .replace("{locks_are_seen}", &IS_SEEN.replace("{seen}", "{locks}"))
        .replace("{fences_are_seen}", &IS_SEEN.replace("{seen}", "{fences}"))
        .replace("{hazards}", &without_comments(include_str!("sql/hazards.sql")))
        .replace("{settings}", &without_comments(include_str!("sql/settings.sql")))
        .replace("{commits}", DURABLE_COMMIT)
        .replace("{waits_are_bounded}", waits_are_bounded)
        .replace("{waits}", waits)
        .replace("{upgrades}", if settings.upgrades { "true" } else { "false" })
        .replace("{signal}", &signal)
        .replace("{number}", NUMBER)
        .replace("{table}", TABLE)
        .replace("{record}", record::COLUMNS)
        .replace("{no_record}", record::NO_COLUMNS)
        .replace("{holder}", record::HOLDER)
        .replace("{intact}", record::INTACT)
        .replace("{intact_by_id}", record::INTACT_BY_ID)
        .replace("{now}", NOW)
        .replace("{tolerance}", &tolerance.to_string())
        .replace("{tolerance_less_1}", &(tolerance - 1).to_string())
        .replace("{stale}", &(tolerance + CLEAN_UP_GUARD.as_millis()).to_string())
        .replace("{highest_counter}", &(Fence::MAX.get() - 1).to_string())
        .replace("{lock_timeout}", &settings.lock_timeout_ms().to_string())
        .replace("{statement_timeout}", &settings.statement_timeout_ms().to_string());
    for operator in OPERATORS {
        sql = sql.replace(&format!("{{{operator}}}"), &format!("OPERATOR(pg_catalog.{operator})"));
    }
    // Last: a name may look like a placeholder.
    sql.replace("{index_lock_id}", &tables.locks.index("lock_id"))
        .replace("{index_expires}", &tables.locks.index("expires"))
        .replace("{locks}", &tables.locks.quoted())
        .replace("{fences}", &tables.fences.quoted())
}

/// The operators of our statements, which are written `{+}`.
///
/// A session looks for functions, operators, types and collations in all schemas of its search path, and prefers a
/// better fit to PostgreSQL's own. So every name in the statements has its schema: a role that may create objects in
/// another schema of the path must not run code as our role. Four rules follow for the text:
///
/// - all operators with a schema have the same precedence: sums in a comparison are in brackets;
/// - `BETWEEN`, `IN`, `LIKE`, `CASE x WHEN`, `NULLIF` and `IS DISTINCT FROM` look for operators, so the statements do
///   not use them;
/// - keywords of SQL, such as `bigint`, `coalesce` or `extract`, are always PostgreSQL's own;
/// - the `=` of `SET a = b` is no operator.
const OPERATORS: [&str; 13] =
    ["=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "||", "~", "~~", "->>"];

/// The server's time at the moment of evaluation, in whole milliseconds; `now()` would be the start of the
/// transaction. `extract` computes with `numeric`, which costs a third more.
const NOW: &str = "pg_catalog.floor(pg_catalog.date_part('epoch'::pg_catalog.text, pg_catalog.clock_timestamp()) {*} 1000)::bigint";

/// Makes the commit wait for the disk, for this statement alone, even if the session does not ask for it.
const DURABLE_COMMIT: &str = "CASE \
     WHEN pg_catalog.current_setting('synchronous_commit') {<>} ALL (ARRAY['on', 'remote_apply']) \
     THEN pg_catalog.set_config('synchronous_commit', 'on', true) END";

/// Limits waits for other sessions, for this statement alone. A shorter limit would end ordinary waits, a longer one
/// stays. Sessions that `session.sql` has set up do without it: it is 3 to 6 % of the work of a statement.
const BOUNDED_WAITS: &str = "CASE \
     WHEN pg_catalog.current_setting('lock_timeout')::interval {<} '{lock_timeout} ms'::interval \
     THEN pg_catalog.set_config('lock_timeout', '{lock_timeout}', true) END";

/// The number of the lock table, which does not depend on how its name is written.
const TABLE: &str = "'{locks}'::pg_catalog.regclass::pg_catalog.oid::bigint";

/// The limit of a statement: none if this role sees all rows of the table. Otherwise the server refuses the statement,
/// because it does not know the setting, with SQLSTATE 42704. Row-level security, and a view in the place of a table,
/// hide rows without a word: then a held lock would look free.
///
/// The server evaluates a limit before it looks for rows, whatever it knows of them. `row_security = off` would do the
/// same only in sessions that are ours alone, and not for views.
const IS_SEEN: &str = "CASE WHEN pg_catalog.row_security_active('{seen}'::pg_catalog.regclass::pg_catalog.oid) \
     OR (pg_catalog.pg_relation_filenode('{seen}'::pg_catalog.regclass) IS NULL \
         AND pg_catalog.pg_partition_root('{seen}'::pg_catalog.regclass) IS NULL) \
     THEN pg_catalog.current_setting('syncguard.row_level_security_or_a_view_hides_locks')::bigint END";

/// The number of a lock `l`, for sessions that watch its key: advisory locks of 64 bits, all over the range.
/// Advisory locks of other programs have the same number only by chance; see the crate's front page.
const NUMBER: &str = "pg_catalog.hashtextextended(l.key COLLATE pg_catalog.\"C\", {table})";

fn without_comments(sql: &str) -> String {
    let mut text = String::with_capacity(sql.len());
    for line in sql.lines().map(str::trim).filter(|line| !line.starts_with("--")) {
        text.push_str(line);
        text.push(' ');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Settings, Statements};
    use crate::config::PostgresOptions;

    #[test]
    fn every_placeholder_is_filled_in() {
        let all = Statements::new(&Settings::new(PostgresOptions::new()).unwrap());
        let statements = [
            &all.acquire_usual,
            &all.acquire,
            &all.acquire_without_holder,
            &all.release_usual,
            &all.release,
            &all.release_counted,
            &all.extend,
            &all.extend_many,
            &all.look,
            &all.lookup_by_key,
            &all.lookup_by_lock_id,
            &all.cleanup,
            &all.check_fence,
            &all.settle,
            &all.list_locks,
            &all.list_counters,
            &all.counter,
            &all.raise_counter,
        ];
        for statement in statements {
            let sql = &statement.sql;
            let open = sql
                .match_indices('{')
                .find(|(at, _)| sql[at + 1..].starts_with(|next: char| next.is_ascii_alphabetic()));
            assert_eq!(open, None, "{sql}");
            let parameters = statement.types.len();
            assert!(sql.contains(&format!("${parameters}")), "{sql}");
            assert!(!sql.contains(&format!("${}", parameters + 1)), "{sql}");
        }
    }
}
