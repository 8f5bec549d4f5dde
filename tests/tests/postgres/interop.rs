//! Records of the TypeScript library: we can read, extend and release them, and our records look the same.

#![allow(clippy::many_single_char_names, reason = "six columns of a row")]

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use serde_json::{Value as Json, json};
use syncguard_postgres::contract::{
    AcquireRequest, AcquireResult, Holder, IsLockedRequest, LookupRequest,
};
use syncguard_postgres::deadpool_postgres::Client;
use syncguard_postgres::inventory::ListRequest;
use syncguard_postgres::{LockBackend as _, LockId, LockInfo, PostgresBackend};
use syncguard_tests::example_record;
use syncguard_tests::inventory::{counters, inventory};

use crate::postgres::support::{Tables, extend, release, take};

#[tokio::test]
async fn their_records_are_ours() -> Result<()> {
    let fixture = Fixture::new().await?;
    let backend = &fixture.backend;
    for sample in samples() {
        let Some(row) = &sample.row else { continue };
        fixture.clear().await?;
        fixture.write(row, &sample.counters).await?;
        let lock_id = LockId::new(text(row, "lock_id"))?;

        assert!(backend.is_locked(IsLockedRequest::new(&sample.key)?).await?);
        for request in [LookupRequest::by_key(&sample.key)?, LookupRequest::by_lock_id(lock_id)] {
            let found = backend.lookup(request).await?.context("a live lock")?;
            assert_eq!(found.holder, None);
            is_theirs(&found, row)?;
        }
        let mut page = inventory(backend).list_locks(ListRequest::new()).await?;
        is_theirs(&page.entries.pop().context("their lock")?, row)?;
        assert!(page.entries.is_empty() && page.corrupt.is_empty());
        let theirs: BTreeSet<_> =
            sample.counters.iter().map(|row| text(row, "key_debug")).collect();
        let (listed, corrupt) = counters(backend, ListRequest::new()).await?;
        let listed: BTreeSet<_> = listed.iter().map(String::as_str).collect();
        assert_eq!((listed, corrupt), (theirs, 0));
        let rival = AcquireRequest::new(&sample.key, Duration::from_secs(1))?;
        let AcquireResult::Busy(refused) = backend.acquire(rival.repeat()).await? else {
            panic!("held");
        };
        assert!(refused.is_polled);
        let again = backend.acquire(rival.with_lock_id(lock_id)).await?.acquired();
        assert_eq!(again.context("the same lock")?.fence.to_string(), text(row, "fence"));

        extend(backend, lock_id).await?;
        release(backend, lock_id).await?;
        assert_eq!(fixture.lock_rows().await?, json!([]));
        assert_eq!(take(backend, &sample.key).await.fence.get(), 2);
    }
    Ok(())
}

fn is_theirs(found: &LockInfo, row: &Json) -> Result<()> {
    assert_eq!(found.key.expose(), text(row, "user_key"));
    assert_eq!(found.lock_id, LockId::new(text(row, "lock_id"))?);
    assert_eq!(found.fence.to_string(), text(row, "fence"));
    assert_eq!(found.expires_at.as_millis(), number(row, "expires_at_ms"));
    assert_eq!(found.acquired_at.as_millis(), number(row, "acquired_at_ms"));
    Ok(())
}

#[tokio::test]
async fn our_records_look_like_theirs() -> Result<()> {
    let fixture = Fixture::new().await?;
    for sample in samples() {
        let Some(theirs) = &sample.row else {
            // The library was refused: the key in another spelling was held.
            let again = AcquireRequest::new(&sample.key, Duration::from_secs(60))?;
            assert!(fixture.backend.acquire(again).await?.is_busy());
            continue;
        };
        let request = AcquireRequest::new(&sample.key, Duration::from_secs(3600))?
            .with_lock_id(LockId::new(text(theirs, "lock_id"))?)
            .with_holder(Holder::new("ours")?.with_note("a note")?);
        let ours = fixture.backend.acquire(request).await?.acquired().context("a free key")?;
        let mut expected = theirs.clone();
        let expires_at = ours.expires_at.as_millis();
        expected["expires_at_ms"] = json!(expires_at.to_string());
        expected["acquired_at_ms"] = json!((expires_at - 3_600_000).to_string());
        // The column that TypeScript does not know.
        expected["holder"] = json!(format!("{} ours\na note", ours.fence));
        let rows = fixture.lock_rows().await?;
        let rows = rows.as_array().context("rows")?;
        assert!(rows.contains(&expected), "{expected} is not among {rows:?}");
        assert_eq!(fixture.counter_rows().await?, Json::Array(sample.counters));
    }
    Ok(())
}

/// The vectors of the page `vectors/records.md`.
#[tokio::test]
async fn our_records_are_those_of_the_page() -> Result<()> {
    let fixture = Fixture::new().await?;
    let acquired = example_record::take(&fixture.backend).await?;
    let mut expected = example_record::stored("postgres", &acquired)?;
    // The rows that are read have numbers as text.
    for (table, column) in [
        ("syncguard_locks", "expires_at_ms"),
        ("syncguard_locks", "acquired_at_ms"),
        ("syncguard_fence_counters", "fence"),
    ] {
        let number = expected[table][column].as_u64().context("a number")?;
        expected[table][column] = json!(number.to_string());
    }
    assert_eq!(fixture.lock_rows().await?, json!([expected["syncguard_locks"]]));
    assert_eq!(fixture.counter_rows().await?, json!([expected["syncguard_fence_counters"]]));
    Ok(())
}

/// The library's records of one acquisition.
struct Sample {
    key: String,
    row: Option<Json>,
    /// All counters, in their order.
    counters: Vec<Json>,
}

fn samples() -> Vec<Sample> {
    let all: Json = serde_json::from_str(include_str!(
        "../../../crates/syncguard-core/vectors/typescript.json"
    ))
    .expect("JSON");
    let all = all["postgres"].as_array().expect("samples");
    // The records have expired; shifted by this much, they were written an instant ago.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_millis();
    let written = number(&all[0]["lockRows"][0], "acquired_at_ms");
    let later = u64::try_from(now).expect("a time") - written;
    let moved = |row: &Json| {
        let mut row = row.clone();
        for column in ["expires_at_ms", "acquired_at_ms"] {
            row[column] = json!((number(&row, column) + later).to_string());
        }
        row
    };
    all.iter()
        .map(|sample| Sample {
            key: text(sample, "key").to_owned(),
            row: sample["lockRows"].get(0).map(moved),
            counters: sample["fenceRows"].as_array().expect("rows").clone(),
        })
        .collect()
}

fn text<'a>(row: &'a Json, column: &str) -> &'a str {
    row[column].as_str().expect("text")
}

fn number(row: &Json, column: &str) -> u64 {
    text(row, column).parse().expect("a number")
}

/// A backend, and its tables through another connection.
struct Fixture {
    backend: PostgresBackend,
    tables: Tables,
}

impl Fixture {
    async fn new() -> Result<Self> {
        let tables = Tables::fresh();
        Ok(Self { backend: tables.backend(2).await, tables })
    }

    async fn client(&self) -> Result<Client> {
        Ok(self.backend.pool().get().await?)
    }

    async fn clear(&self) -> Result<()> {
        let sql = format!("TRUNCATE {}, {}", self.tables.locks, self.tables.fences);
        Ok(self.client().await?.batch_execute(&sql).await?)
    }

    async fn write(&self, row: &Json, counters: &[Json]) -> Result<()> {
        let client = self.client().await?;
        let sql = format!(
            "INSERT INTO {} VALUES ($1, $2, $3::text::bigint, $4::text::bigint, $5, $6)",
            self.tables.locks
        );
        let columns = ["key", "lock_id", "expires_at_ms", "acquired_at_ms", "fence", "user_key"];
        let [a, b, c, d, e, f] = columns.map(|column| text(row, column));
        client.execute(&sql, &[&a, &b, &c, &d, &e, &f]).await?;
        for counter in counters {
            let sql =
                format!("INSERT INTO {} VALUES ($1, $2::text::bigint, $3)", self.tables.fences);
            let [a, b, c] = ["fence_key", "fence", "key_debug"].map(|column| text(counter, column));
            client.execute(&sql, &[&a, &b, &c]).await?;
        }
        Ok(())
    }

    async fn lock_rows(&self) -> Result<Json> {
        self.rows(&self.tables.locks, "acquired_at_ms").await
    }

    async fn counter_rows(&self) -> Result<Json> {
        self.rows(&self.tables.fences, "ctid").await
    }

    /// All rows, with numbers as text, like the samples.
    async fn rows(&self, table: &str, order: &str) -> Result<Json> {
        let sql = format!(
            "SELECT coalesce(json_agg((SELECT json_object_agg(key, value)
               FROM jsonb_each_text(to_jsonb(t))) ORDER BY {order}), '[]')::text FROM {table} AS t"
        );
        let row = self.client().await?.query_one(&sql, &[]).await?;
        Ok(serde_json::from_str(row.get(0))?)
    }
}
