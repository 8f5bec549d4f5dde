//! The page of the stored records, the vectors, and the code say the same. The tests `interop` of each store compare
//! the vectors with the records that its server has.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use rusqlite::Connection;
use serde_json::{Map, Value as Json};
use sha2::{Digest as _, Sha256};
use syncguard::authoring::{CLEAN_UP_GUARD, StorageLimits, make_fence_key, make_storage_key};
use syncguard::contract::{Holder, TIME_TOLERANCE};
use syncguard::postgres::{PostgresOptions, schema_sql};
use syncguard::sqlite::SqliteBackend;
use syncguard::{Fence, Key, Ttl};
use syncguard_tests::example_record::{self, number, stored, text, vectors};

const PAGE: &str = include_str!("../../crates/syncguard-core/vectors/records.md");

/// The stores in the order of the page: the title of the section, the name in the vectors, the folder of the
/// statements.
const STORES: [(&str, &str, &str); 7] = [
    ("# Redis", "redis", "syncguard-redis/src/lua"),
    ("## Redis Cluster", "redisCluster", ""),
    ("# PostgreSQL", "postgres", "syncguard-postgres/src/sql"),
    ("# Firestore", "firestore", ""),
    ("# etcd", "etcd", ""),
    ("# Object store", "object-store", ""),
    ("# SQLite", "sqlite", "syncguard-sqlite/src/sql"),
];

/// The text of a section, up to the next title of any level.
fn section(title: &str) -> Result<&'static str> {
    let start = PAGE.find(&format!("\n{title}\n")).with_context(|| title.to_owned())?;
    let text = &PAGE[start + title.len() + 2..];
    Ok(text.find("\n#").map_or(text, |end| &text[..end]))
}

#[test]
fn the_examples_are_those_of_the_vectors() -> Result<()> {
    let vectors = vectors()?;
    ensure!(PAGE.matches("```json").count() == STORES.len());
    ensure!(vectors["stored"].as_object().context("stores")?.len() == STORES.len());
    for (title, store, _) in STORES {
        let shown = section(title)?.split_once("```json\n").context("an example")?.1;
        let shown: Json = serde_json::from_str(shown.split_once("```").context("its end")?.0)?;
        ensure!(shown == vectors["stored"][store], "{title}");
    }
    Ok(())
}

/// The fields of a store's records. A text with JSON is a record, too.
fn fields(records: &Json) -> Result<BTreeSet<String>> {
    let mut fields = BTreeSet::new();
    for record in records.as_object().context("records")?.values() {
        let parsed: Json = match record.as_str() {
            Some(text) if text.starts_with('{') => serde_json::from_str(text)?,
            _ => record.clone(),
        };
        fields.extend(parsed.as_object().into_iter().flat_map(Map::keys).cloned());
    }
    Ok(fields)
}

#[test]
fn each_field_is_explained_and_no_other() -> Result<()> {
    for (title, store, _) in STORES.iter().filter(|(_, store, _)| *store != "redisCluster") {
        let rows = section(title)?.lines().filter_map(|line| line.strip_prefix("| `"));
        let explained: BTreeSet<String> =
            rows.filter_map(|row| row.split_once("` |")).map(|row| row.0.to_owned()).collect();
        ensure!(explained == fields(&vectors()?["stored"][store])?, "{title}: {explained:?}");
    }
    Ok(())
}

#[test]
fn the_columns_of_postgres_are_those_of_the_schema() -> Result<()> {
    let schema = schema_sql(&PostgresOptions::new())?;
    let columns: BTreeSet<String> = schema
        .lines()
        .filter_map(|line| line.strip_prefix("  ")?.split_once(' '))
        .filter(|(_, kind)| kind.starts_with("bigint") || kind.starts_with("pg_catalog.text"))
        .map(|(column, _)| column.to_owned())
        .collect();
    ensure!(columns == fields(&vectors()?["stored"]["postgres"])?, "{columns:?}");
    Ok(())
}

/// The statements of the page exist, and those of the operations are on the page.
#[test]
fn the_statements_are_those_of_the_code() -> Result<()> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    for (title, _, folder) in STORES.iter().filter(|(_, _, folder)| !folder.is_empty()) {
        let text = section(title)?;
        ensure!(text.contains(folder), "{title}");
        let named: Vec<&str> = text
            .split('`')
            .filter(|word| !word.contains('/'))
            .filter(|word| word.rsplit_once('.').is_some_and(|(_, kind)| folder.ends_with(kind)))
            .collect();
        ensure!(named.len() >= 5, "{named:?}");
        for name in &named {
            ensure!(crates.join(folder).join(name).is_file(), "{title}: {name}");
        }
        for name in std::fs::read_dir(crates.join(folder))? {
            let name = name?.file_name().into_string().ok().context("a name")?;
            let is_operation =
                ["acquire.", "release.", "extend.", "is_locked.", "lookup_by", "by_"]
                    .iter()
                    .any(|start| name.starts_with(start));
            ensure!(!is_operation || named.contains(&&*name), "{title}: no {name}");
        }
    }
    Ok(())
}

/// In each place where the page has such words, it has these numbers.
#[test]
fn the_numbers_are_those_of_the_code() -> Result<()> {
    let tolerance = TIME_TOLERANCE.as_millis();
    let dead = tolerance + CLEAN_UP_GUARD.as_millis();
    let (major, minor, _) = Key::UNICODE_VERSION;
    let (key, longest) = (Key::MAX_LENGTH_BYTES, Holder::MAX_LENGTH_BYTES);
    let (last, digits) = (Fence::MAX.get(), Fence::DIGITS);
    let ttls = format!("{} to {}", Ttl::MIN.as_millis(), Ttl::MAX.as_millis());
    for (before, number, after) in [
        ("`expiry + ", tolerance.to_string(), " > now`"),
        ("TTL + ", tolerance.to_string(), " ms"),
        ("has been over for ", dead.to_string(), " ms"),
        ("at the earliest ", dead.to_string(), " ms after its expiry"),
        ("text of 1 to ", key.to_string(), " bytes"),
        ("as make ", (key + 1).to_string(), " bytes"),
        ("those of Unicode ", format!("{major}.{minor}"), " |"),
        ("a number from 1 to ", last.to_string(), "."),
        ("If the counter is ", last.to_string(), ","),
        ("has exactly ", digits.to_string(), " digits"),
        ("TTL | whole milliseconds, from ", ttls, " |"),
        ("texts for people, ", longest.to_string(), " bytes"),
        ("`application_id` ", 0x5379_4764.to_string(), ","),
    ] {
        let places = PAGE.matches(before).count();
        let right = PAGE.matches(&format!("{before}{number}{after}")).count();
        ensure!(places > 0 && places == right, "{before}{number}{after}: {right} of {places}");
    }
    Ok(())
}

/// The names of lock, index entry and counter in the example of a store, by the page's table of names.
fn expected_names(prefix: &str) -> Result<BTreeSet<String>> {
    let (vectors, limits) = (vectors()?, StorageLimits { limit: 1000, reserve: 26 });
    let lock = make_storage_key(prefix, &Key::new(text(&vectors, "key")?)?, limits)?;
    let index = Key::new(format!("id:{}", text(&vectors, "lockId")?))?;
    let names =
        [make_storage_key(prefix, &index, limits)?, make_fence_key(prefix, &lock, limits)?, lock];
    Ok(names.map(|name| name.expose().to_owned()).into())
}

#[test]
fn the_names_follow_the_rule() -> Result<()> {
    for (store, limit, reserve) in
        [("Redis", 1000, 26), ("PostgreSQL", 1700, 0), ("Firestore", 1500, 0)]
    {
        ensure!(PAGE.contains(&format!("| {store} | {limit} | {reserve} |")), "{store}");
    }
    let vectors = vectors()?;
    let names = |store: &str| -> Result<BTreeSet<String>> {
        let records = vectors["stored"][store].as_object().context("records")?;
        Ok(records.keys().cloned().collect())
    };
    ensure!(names("redis")? == expected_names("syncguard")?);
    let whole = format!("syncguard:{}", text(&vectors, "key")?);
    let shard = Sha256::digest(whole)[0] % 64;
    ensure!(names("redisCluster")? == expected_names(&format!("{{syncguard:{shard:02}}}"))?);
    Ok(())
}

#[tokio::test]
async fn etcd_has_the_records_of_the_page() -> Result<()> {
    let prefix = crate::etcd::support::fresh();
    let backend = crate::etcd::support::backend(&prefix).await;
    let acquired = example_record::take(&backend).await?;
    let raw = crate::etcd::support::Raw(crate::etcd::support::shared());
    let expected = stored("etcd", &acquired)?;
    for (name, value) in expected.as_object().context("records")? {
        let name = name.replacen("syncguard", &prefix, 1);
        let found = raw.get(&name).with_context(|| name.clone())?;
        ensure!(Some(found.as_str()) == value.as_str(), "{name}: {found}");
    }
    ensure!(raw.names(&prefix).len() == 3);
    Ok(())
}

#[tokio::test]
async fn a_bucket_has_the_records_of_the_page() -> Result<()> {
    use crate::object_store::support::{Raw, backend_at, fresh, options, shared};
    let prefix = fresh();
    let backend = backend_at(shared().port(), &prefix, options()).await;
    let acquired = example_record::take(&backend).await?;
    let expected = stored("object-store", &acquired)?;
    for (name, value) in expected.as_object().context("records")? {
        let name = name.replacen("syncguard", &prefix, 1);
        let found = Raw::new().get(&name.as_str().into()).await.with_context(|| name.clone())?;
        let mut shown: Json = serde_json::from_str(value.as_str().context("a text")?)
            .unwrap_or_else(|_| value.clone());
        let mut found: Json = serde_json::from_str(&found).unwrap_or(Json::String(found));
        for record in [&mut shown, &mut found] {
            if let Some(nonce) = record.get_mut("nonce") {
                *nonce = Json::Null;
            }
        }
        ensure!(found == shown, "{name}: {found}");
    }
    Ok(())
}

/// The only row of a table.
fn row(file: &Connection, table: &str) -> Result<Json> {
    let columns: String = file.query_row(
        "SELECT group_concat(format('''%s'', %s', name, name)) FROM pragma_table_info(?1)",
        [table],
        |row| row.get(0),
    )?;
    let row = format!("SELECT json_object({columns}) FROM {table}");
    let text: String = file.query_row(&row, [], |row| row.get(0))?;
    Ok(serde_json::from_str(&text)?)
}

#[tokio::test]
async fn a_file_of_sqlite_has_the_records_of_the_page() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("locks.db");
    let backend = SqliteBackend::open(&path).await?;
    let acquired = example_record::take(&backend).await?;
    let file = Connection::open(&path)?;
    let lock = row(&file, "locks")?;
    let mut expected = stored("sqlite", &acquired)?;
    ensure!(row(&file, "fences")? == expected["fences"]);

    // The clock is that of this boot.
    let time = |row: &Json, column: &str| row[column].as_i64().context("a time");
    let ttl = i64::try_from(number(&vectors()?, "ttlMs")?)?;
    for lock in [&lock, &expected["locks"]] {
        ensure!(time(lock, "expires_ms")? - time(lock, "acquired_ms")? == ttl, "{lock}");
    }
    let shown = time(&expected["locks"], "expires_ms")? + time(&expected["locks"], "offset_ms")?;
    ensure!(u64::try_from(shown)? == number(&vectors()?, "expiresAtMs")?);
    let stored = time(&lock, "expires_ms")? + time(&lock, "offset_ms")?;
    ensure!(u64::try_from(stored)? == acquired.expires_at.as_millis());
    for column in ["boot", "acquired_ms", "expires_ms", "offset_ms"] {
        expected["locks"][column] = lock[column].clone();
    }
    ensure!(lock == expected["locks"], "{lock}");

    let pragma = |name: &str| -> Result<i64> {
        Ok(file.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0))?)
    };
    ensure!(pragma("application_id")? == 0x5379_4764 && pragma("user_version")? == 1);
    Ok(())
}
