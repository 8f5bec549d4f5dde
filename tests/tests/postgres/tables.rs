//! Tables whose rows the database hides, changes or drops, and tables that somebody else has made.

use anyhow::{Context as _, Result, ensure};
use syncguard::contract::{
    AcquireRequest, AcquireResult, ExtendRequest, IsLockedRequest, LookupRequest, ReleaseRequest,
};
use syncguard::inventory::ListRequest;
use syncguard::postgres::deadpool_postgres::{Manager, Pool, Runtime};
use syncguard::postgres::tokio_postgres::{Config, NoTls};
use syncguard::postgres::{
    DurabilityRisk, PostgresBackend, PostgresOptions, check_fence_sql, schema_sql, setup_schema,
};
use syncguard::{
    ErrorCode, ExtendResult, Fence, LockBackend as _, LockError, LockId, ReleaseResult,
};
use syncguard_test_services::postgres::{PgBouncer, PoolMode, PostgresServer};

use crate::troubles::{MINUTE, take};

/// A server with the tables, whose owner is `postgres`, and with a role that may use them.
pub(super) fn server() -> Result<PostgresServer> {
    let server = PostgresServer::start()?;
    server.psql(&schema_sql(&PostgresOptions::new())?)?;
    server.psql(
        "CREATE ROLE app LOGIN; GRANT SELECT, INSERT, UPDATE, DELETE ON syncguard_locks TO app;
         GRANT SELECT, INSERT, UPDATE ON syncguard_fence_counters TO app",
    )?;
    Ok(server)
}

fn url(server: &PostgresServer, role: &str) -> String {
    format!("postgres://{role}@127.0.0.1:{}/postgres", server.port())
}

fn pool(url: &str) -> Result<Pool> {
    let manager = Manager::new(url.parse::<Config>()?, NoTls);
    Ok(Pool::builder(manager).max_size(4).runtime(Runtime::Tokio1).build()?)
}

/// Runs each operation on a lock that is held; the results are errors, or true if the operation has seen the lock.
async fn each(
    backend: &PostgresBackend,
    key: &str,
    id: LockId,
) -> Result<Vec<(&'static str, Result<bool, LockError>)>> {
    let inventory = backend.inventory().context("an inventory")?;
    let all = ListRequest::new;
    Ok(vec![
        ("key", backend.lookup(LookupRequest::by_key(key)?).await.map(|it| it.is_some())),
        ("id", backend.lookup(LookupRequest::by_lock_id(id)).await.map(|it| it.is_some())),
        ("is_locked", backend.is_locked(IsLockedRequest::new(key)?).await),
        ("ls", inventory.list_locks(all()).await.map(|page| !page.entries.is_empty())),
        ("counters", inventory.list_counters(all()).await.map(|page| !page.entries.is_empty())),
        ("counter", inventory.fence_counter(key).await.map(|it| it.is_some())),
        ("raise", inventory.raise_counter(key, Fence::new(9)?).await.map(|_| true)),
        (
            "acquire",
            backend.acquire(AcquireRequest::new(key, MINUTE)?).await.map(|it| it.is_busy()),
        ),
        (
            "extend",
            backend.extend(ExtendRequest::new(id, MINUTE)?).await.map(ExtendResult::is_extended),
        ),
        ("release", backend.release(ReleaseRequest::new(id)).await.map(ReleaseResult::is_released)),
    ])
}

async fn refuses_all(backend: &PostgresBackend, key: &str, id: LockId, case: &str) -> Result<()> {
    for (operation, result) in each(backend, key, id).await? {
        let error = result.err().with_context(|| format!("{case}: {operation} was answered"))?;
        // Operations on counters do not mind a view in the place of the lock table.
        ensure!(error.code() == ErrorCode::AuthFailed, "{case}: {operation}: {error}");
        ensure!(error.message().contains("row-level security"), "{case}: {operation}: {error}");
    }
    Ok(())
}

async fn sees_all(backend: &PostgresBackend, key: &str, case: &str) -> Result<()> {
    let id = take(backend, key).await?;
    for (operation, result) in each(backend, key, id).await? {
        ensure!(result.with_context(|| format!("{case}: {operation}"))?, "{case}: {operation}");
    }
    Ok(())
}

const TABLES: [&str; 2] = ["syncguard_locks", "syncguard_fence_counters"];

fn on_both(server: &PostgresServer, sql: &str) -> Result<()> {
    TABLES.iter().try_for_each(|table| server.psql(&sql.replace("{}", table)).map(drop))
}

/// A hidden lock would look free: `status` says so, `ls` is empty, and a holder that renews its lock hears that it is
/// lost.
#[tokio::test]
async fn row_level_security_refuses_and_never_hides() -> Result<()> {
    let server = server()?;
    let (app, off) = (url(&server, "app"), "?options=-c%20row_security%3Doff");
    let options = PostgresOptions::new();
    let unprepared = options.clone().with_unprepared_statements(true);
    let backends = [
        ("ours", PostgresBackend::connect(&app).await?),
        ("the user's pool", PostgresBackend::from_pool(pool(&app)?, options.clone())?),
        ("row_security = off", PostgresBackend::from_pool(pool(&format!("{app}{off}"))?, options)?),
        ("unprepared", PostgresBackend::connect_with(&app, unprepared).await?),
    ];
    let holder = PostgresBackend::connect(&server.url()).await?;
    let id = take(&holder, "key").await?;
    for (_, backend) in &backends {
        sees_all(backend, "other", "before").await?;
    }
    for policy in [None, Some("key <> 'key'"), Some("true")] {
        on_both(&server, "ALTER TABLE {} ENABLE ROW LEVEL SECURITY")?;
        if let Some(policy) = policy {
            server.psql(&format!("CREATE POLICY shown ON syncguard_locks USING ({policy})"))?;
            server.psql("CREATE POLICY shown ON syncguard_fence_counters USING (true)")?;
        }
        for (name, backend) in &backends {
            refuses_all(backend, "key", id, &format!("{name}, {policy:?}")).await?;
        }
        let risks = backends[0].1.durability_report().await?.risks;
        let hidden = |risk: &DurabilityRisk| matches!(risk, DurabilityRisk::HiddenRows { .. });
        ensure!(risks.len() == 2 && risks.iter().all(hidden), "{risks:?}");
        if policy.is_some() {
            on_both(&server, "DROP POLICY shown ON {}")?;
        }
        on_both(&server, "ALTER TABLE {} DISABLE ROW LEVEL SECURITY")?;
    }
    // The lock is there, and its holder goes on.
    ensure!(holder.extend(ExtendRequest::new(id, MINUTE)?).await?.is_extended());
    ensure!(backends[1].1.is_locked(IsLockedRequest::new("key")?).await?);
    Ok(())
}

/// The owner is filtered only with `FORCE`; a superuser and a role with `BYPASSRLS` never are.
#[tokio::test]
async fn row_level_security_that_filters_nothing_of_a_role_does_not_matter() -> Result<()> {
    let server = server()?;
    server.psql("CREATE ROLE owner LOGIN; CREATE ROLE free LOGIN BYPASSRLS; GRANT app TO free")?;
    on_both(&server, "ALTER TABLE {} OWNER TO owner; ALTER TABLE {} ENABLE ROW LEVEL SECURITY")?;
    let owner = PostgresBackend::connect(&url(&server, "owner")).await?;
    sees_all(&owner, "owner", "the owner").await?;
    let id = take(&owner, "held").await?;
    for (key, url) in [("free", url(&server, "free")), ("super", server.url())] {
        let backend = PostgresBackend::connect(&format!("{url}?trusted_owner=owner")).await?;
        sees_all(&backend, key, key).await?;
        ensure!(backend.is_locked(IsLockedRequest::new("held")?).await?);
    }
    on_both(&server, "ALTER TABLE {} FORCE ROW LEVEL SECURITY")?;
    refuses_all(&owner, "held", id, "FORCE").await?;
    // Only one of the two tables.
    server.psql("ALTER TABLE syncguard_locks DISABLE ROW LEVEL SECURITY")?;
    let error = owner.acquire(AcquireRequest::new("new", MINUTE)?).await.unwrap_err();
    ensure!(error.message().contains("row-level security"), "{error}");
    Ok(())
}

/// The session's settings do not reach the server through PgBouncer.
#[tokio::test]
async fn row_level_security_refuses_behind_pgbouncer() -> Result<()> {
    let server = server()?;
    let holder = PostgresBackend::connect(&server.url()).await?;
    let id = take(&holder, "key").await?;
    on_both(&server, "ALTER TABLE {} ENABLE ROW LEVEL SECURITY")?;
    server.psql("ALTER ROLE postgres SET role = 'app'")?;
    for mode in [PoolMode::Transaction, PoolMode::Session] {
        let pooler = PgBouncer::start(&server, mode)?;
        let options = PostgresOptions::new().with_unprepared_statements(true);
        let connected = PostgresBackend::connect_with(&pooler.url(), options.clone()).await;
        let error = connected.map(drop).unwrap_err();
        ensure!(error.message().contains("row-level security"), "{error}");
        on_both(&server, "SET ROLE NONE; ALTER TABLE {} DISABLE ROW LEVEL SECURITY")?;
        let backend = PostgresBackend::connect_with(&pooler.url(), options).await?;
        on_both(&server, "SET ROLE NONE; ALTER TABLE {} ENABLE ROW LEVEL SECURITY")?;
        refuses_all(&backend, "key", id, "PgBouncer").await?;
    }
    Ok(())
}

/// A view can hide rows as well.
#[tokio::test]
async fn a_view_in_the_place_of_a_table_is_refused() -> Result<()> {
    let server = server()?;
    let backend = PostgresBackend::from_pool(pool(&url(&server, "app"))?, PostgresOptions::new())?;
    let id = take(&backend, "key").await?;
    on_both(&server, "ALTER TABLE {} RENAME TO real_{}")?;
    on_both(&server, "CREATE VIEW {} AS SELECT * FROM real_{}; GRANT ALL ON {} TO app")?;
    refuses_all(&backend, "key", id, "a view").await?;
    let error = setup_schema(&pool(&server.url())?, &PostgresOptions::new()).await.unwrap_err();
    ensure!(error.message().contains("view"), "{error}");
    // A view that takes no writes.
    on_both(
        &server,
        "DROP VIEW {}; CREATE VIEW {} AS SELECT DISTINCT * FROM real_{}; GRANT ALL ON {} TO app",
    )?;
    let error = backend.acquire(AcquireRequest::new("new", MINUTE)?).await.unwrap_err();
    ensure!(error.message().contains("view"), "{error}");
    Ok(())
}

/// Partitions and tables that inherit are no views: their rows are all there.
#[tokio::test]
async fn partitioned_tables_hide_nothing() -> Result<()> {
    let server = server()?;
    on_both(&server, "ALTER TABLE {} RENAME TO plain_{}")?;
    server.psql(
        "CREATE TABLE syncguard_locks (LIKE plain_syncguard_locks, PRIMARY KEY (key)) PARTITION BY HASH (key);
         CREATE TABLE part_0 PARTITION OF syncguard_locks FOR VALUES WITH (MODULUS 2, REMAINDER 0);
         CREATE TABLE part_1 PARTITION OF syncguard_locks FOR VALUES WITH (MODULUS 2, REMAINDER 1);
         ALTER TABLE plain_syncguard_fence_counters RENAME TO syncguard_fence_counters;
         GRANT ALL ON syncguard_locks, syncguard_fence_counters TO app",
    )?;
    refuses_tables(&server, "app", "public.syncguard_locks is a view, a parent").await?;
    let trusting = PostgresOptions::new().with_trusted_owner("postgres");
    let backend = PostgresBackend::connect_with(&url(&server, "app"), trusting).await?;
    for key in ["a", "b", "c", "d"] {
        sees_all(&backend, key, "partitions").await?;
    }
    server.psql("ALTER TABLE syncguard_locks ENABLE ROW LEVEL SECURITY")?;
    let error = backend.lookup(LookupRequest::by_key("a")?).await.unwrap_err();
    ensure!(error.message().contains("row-level security"), "{error}");
    Ok(())
}

/// The statement for other drivers refuses as well: no row would mean that the lock is lost.
#[tokio::test]
async fn check_fence_names_row_level_security() -> Result<()> {
    let server = server()?;
    on_both(&server, "ALTER TABLE {} ENABLE ROW LEVEL SECURITY")?;
    let client = pool(&url(&server, "app"))?.get().await?;
    let error =
        client.query(&check_fence_sql(&PostgresOptions::new())?, &[&"id", &"1"]).await.unwrap_err();
    ensure!(
        error.as_db_error().is_some_and(|db| db.message().contains("row_level_security")),
        "{error:?}"
    );
    Ok(())
}

/// The tables as `eve` makes them, with a trigger that runs as whoever takes a lock.
const SQUAT: &str = "SET ROLE eve; {tables}
    CREATE FUNCTION {schema}gain() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      NEW.expires_at_ms = 0;
      IF (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN EXECUTE 'ALTER ROLE eve SUPERUSER'; END IF;
      RETURN NEW; END $$;
    CREATE TRIGGER gain BEFORE INSERT OR UPDATE ON syncguard_locks FOR EACH ROW EXECUTE FUNCTION {schema}gain();
    GRANT ALL ON syncguard_locks, syncguard_fence_counters TO PUBLIC";

/// The tables are refused in every mode, before any statement uses them; the message names what is wrong.
pub(super) async fn refuses_tables(server: &PostgresServer, role: &str, says: &str) -> Result<()> {
    let url = url(server, role);
    let options = PostgresOptions::new;
    let of_pool = PostgresBackend::from_pool(pool(&url)?, options())?;
    let id = LockId::generate()?;
    let strict = options().with_strict_durability(true);
    let mut refusals = vec![
        ("set-up", setup_schema(&pool(&url)?, &options()).await.map(drop)),
        ("connect", PostgresBackend::connect(&url).await.map(drop)),
        ("strict", PostgresBackend::connect_with(&url, strict).await.map(drop)),
    ];
    let of_operations = each(&of_pool, "key", id).await?.into_iter();
    refusals.extend(of_operations.map(|(name, result)| (name, result.map(drop))));
    for (name, refusal) in refusals {
        let error = refusal.err().with_context(|| format!("{name} accepts: {says}"))?;
        ensure!(error.code() == ErrorCode::InvalidArgument, "{name}, {says}: {error}");
        ensure!(error.message().contains(says), "{name}, {says}: {error}");
    }
    let risks = of_pool.durability_report().await?.risks;
    let mut risks = risks.iter().filter(|risk| risk.is_always_refused());
    ensure!(risks.any(|risk| risk.to_string().contains(says)), "{says}");
    Ok(())
}

pub(super) async fn accepts_tables(
    server: &PostgresServer,
    options: &PostgresOptions,
) -> Result<()> {
    let (app, strict) = (url(server, "app"), options.clone().with_strict_durability(true));
    setup_schema(&pool(&app)?, &strict).await?;
    let backend = PostgresBackend::connect_with(&app, strict).await?;
    sees_all(&backend, "accepted", "accepted").await
}

/// A role that could create tables before us gets nothing from it.
#[tokio::test]
async fn tables_of_a_stranger_are_refused() -> Result<()> {
    let tables = schema_sql(&PostgresOptions::new())?;
    let server = PostgresServer::start()?;
    server.psql("CREATE ROLE eve; CREATE ROLE app LOGIN; GRANT CREATE ON SCHEMA public TO eve")?;
    let closed = setup_schema(&pool(&url(&server, "app"))?, &PostgresOptions::new()).await;
    let says = "let its owner postgres run GRANT CREATE ON SCHEMA public TO app";
    ensure!(closed.as_ref().is_err_and(|error| error.message().contains(says)), "{closed:?}");
    server.psql(&SQUAT.replace("{tables}", &tables).replace("{schema}", ""))?;
    let foreign = "the table public.syncguard_locks belongs to eve";
    for role in ["postgres", "app"] {
        refuses_tables(&server, role, foreign).await?;
    }
    // Without the trigger, the owner can put it back at any time.
    server.psql("REVOKE CREATE ON SCHEMA public FROM eve; DROP TRIGGER gain ON syncguard_locks")?;
    refuses_tables(&server, "app", foreign).await?;
    ensure!(server.psql("SELECT rolsuper FROM pg_roles WHERE rolname = 'eve'")?.trim() == "f");
    // The trust is in one role.
    server.psql("CREATE ROLE mallory; ALTER TABLE syncguard_fence_counters OWNER TO mallory")?;
    let trusting = PostgresOptions::new().with_trusted_owner("eve");
    let error = setup_schema(&pool(&url(&server, "app"))?, &trusting).await.unwrap_err();
    ensure!(error.message().contains("syncguard_fence_counters belongs to mallory"), "{error}");
    server.psql("ALTER TABLE syncguard_fence_counters OWNER TO eve")?;
    accepts_tables(&server, &trusting).await?;

    // A schema with the name of the victim's role comes first in the usual search path.
    let server = self::server()?;
    server.psql("CREATE ROLE eve; GRANT CREATE ON DATABASE postgres TO eve")?;
    let report = PostgresBackend::connect(&url(&server, "app")).await?.durability_report().await?;
    ensure!(report.risks.is_empty() && report.open_schema.is_none(), "{report:?}");
    server.psql("SET ROLE eve; CREATE SCHEMA app; GRANT ALL ON SCHEMA app TO PUBLIC")?;
    let report = PostgresBackend::connect(&url(&server, "app")).await?.durability_report().await?;
    ensure!(report.open_schema.as_deref() == Some("app"), "{report:?}");
    let squat = SQUAT.replace("{tables}", &format!("SET search_path = app; {tables}"));
    server.psql(&squat.replace("{schema}", "app."))?;
    refuses_tables(&server, "app", "the table app.syncguard_locks belongs to eve").await?;
    // The schema's owner can drop tables of ours in it.
    server.psql(
        "DROP SCHEMA app CASCADE; SET ROLE eve; CREATE SCHEMA app; GRANT ALL ON SCHEMA app TO app",
    )?;
    server.psql(&format!("SET ROLE app; SET search_path = app; {tables}"))?;
    refuses_tables(&server, "app", "the schema app, which has the name of this role").await
}

/// Acquires that a trigger undoes are not contention: nobody holds the lock.
#[tokio::test]
async fn a_trigger_that_drops_rows_is_an_error() -> Result<()> {
    let server = server()?;
    server
        .psql("CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")?;
    let backend = PostgresBackend::connect(&url(&server, "app")).await?;
    for table in TABLES {
        server.psql(&format!(
            "CREATE TRIGGER t BEFORE INSERT OR UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION f()"
        ))?;
        for key in ["new", "used"] {
            let result = backend.acquire(AcquireRequest::new(key, MINUTE)?).await;
            let error = result.map(|it| matches!(it, AcquireResult::Busy(_))).unwrap_err();
            ensure!(error.code() == ErrorCode::Internal, "{table}: {error}");
            ensure!(error.message().contains("trigger"), "{table}: {error}");
        }
        server.psql(&format!("DROP TRIGGER t ON {table}"))?;
        let id = take(&backend, "used").await?;
        ensure!(backend.release(ReleaseRequest::new(id)).await?.is_released());
    }
    Ok(())
}
