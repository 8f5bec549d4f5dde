//! The guide: one page for each subject. Every Rust snippet is compiled.
//!
//! Read the first three pages in order, and the others when you need them.
#![doc = include_str!("guide/index.md")]

/// A title, a first sentence, and a drawing below them.
///
/// The drawing is part of the page as SVG, because rustdoc copies no files and docs.rs serves none. So the drawing has
/// the text color of the page, in every theme. Markdown ends HTML at a blank line: the file must not have one.
macro_rules! drawn {
    ($title:literal, $path:literal) => {
        concat!($title, "\n\n<div>\n", include_str!($path), "</div>\n\n")
    };
}

/// A file of Rust as a block of the page. It is compiled and run where it lives.
macro_rules! shown {
    ($title:literal, $path:literal) => {
        concat!("\n", $title, "\n\n```no_run\n", include_str!($path), "```\n")
    };
}

/// A file of another language as a block of the page. The tests of `syncguard-cli` run it.
macro_rules! quoted {
    ($title:literal, $language:literal, $path:literal) => {
        concat!("\n", $title, "\n\n```", $language, "\n", include_str!($path), "```\n")
    };
}

// With these the pages use the names that a program uses.
#[allow(unused_imports, reason = "for links in the text alone")]
use crate::{authoring::*, contract::*, diagnostics::*, inventory::*, recipes, shared::*, *};

#[doc = include_str!("guide/getting_started.md")]
pub mod getting_started {}

#[doc = include_str!("guide/concepts.md")]
pub mod concepts {}

#[doc = drawn!(
    "# Waiting for a turn\n\nHow to wait for a lock, what to set, and how a lock passes from process to process.",
    "guide/pictures/hand_over.svg"
)]
#[doc = include_str!("guide/waiting.md")]
pub mod waiting {}

#[doc = drawn!(
    "# Fencing\n\nThe data compares fences, and refuses a holder that writes too late.",
    "guide/pictures/fence.svg"
)]
#[doc = include_str!("guide/fencing.md")]
#[doc = shown!("## PostgreSQL: `fenced_write_postgres`", "../examples/fenced_write_postgres.rs")]
#[doc = shown!("## Redis: `fenced_write_redis`", "../examples/fenced_write_redis.rs")]
#[doc = shown!("## Firestore: `fenced_write_firestore`", "../examples/fenced_write_firestore.rs")]
// Programs of the package `syncguard-examples`, which has their drivers.
#[cfg_attr(not(doctest), doc = shown!("## sqlx: `fenced_sqlx`", "guide/fenced_sqlx.rs"))]
#[cfg_attr(not(doctest), doc = shown!("## sqlx and SQLite: `fenced_sqlx_sqlite`", "guide/fenced_sqlx_sqlite.rs"))]
#[cfg_attr(not(doctest), doc = shown!("## rusqlite: `fenced_rusqlite`", "guide/fenced_rusqlite.rs"))]
#[cfg_attr(not(doctest), doc = shown!("## redis-rs: `fenced_redis_rs`", "guide/fenced_redis_rs.rs"))]
pub mod fencing {}

#[doc = include_str!("guide/long_work.md")]
pub mod long_work {}

#[doc = include_str!("guide/min_hold.md")]
pub mod min_hold {}

#[doc = include_str!("guide/ticks.md")]
pub mod ticks {}

#[doc = include_str!("guide/several_keys.md")]
pub mod several_keys {}

#[doc = include_str!("guide/election.md")]
#[doc = shown!("## A whole program: `leader`", "../examples/leader.rs")]
pub mod election {}

#[doc = include_str!("guide/semaphore.md")]
pub mod semaphore {}

#[doc = include_str!("guide/readers_and_writers.md")]
pub mod readers_and_writers {}

#[doc = include_str!("guide/web_service.md")]
// A program of the package `syncguard-examples`, which has axum.
#[cfg_attr(not(doctest), doc = shown!("## The program `webhook`", "guide/webhook.rs"))]
pub mod web_service {}

#[doc = include_str!("guide/errors.md")]
pub mod errors {}

#[doc = include_str!("guide/cancellation.md")]
pub mod cancellation {}

#[doc = include_str!("guide/runtimes.md")]
pub mod runtimes {}

#[doc = include_str!("guide/choosing.md")]
pub mod choosing {}

#[doc = include_str!("guide/on_etcd.md")]
pub mod on_etcd {}

#[doc = include_str!("guide/on_object_stores.md")]
pub mod on_object_stores {}

#[doc = include_str!("guide/costs.md")]
pub mod costs {}

#[doc = include_str!("guide/platforms.md")]
pub mod platforms {}

#[doc = include_str!("guide/production.md")]
pub mod production {}

#[doc = include_str!("guide/inventory.md")]
pub mod inventory {}

#[doc = include_str!("guide/shell.md")]
#[doc = drawn!(
    "## A failover on the screen\n\nThe process `web-1` is killed. Nobody renews its lock any more: the lock turns red, \
     ends when its TTL of 5 seconds is over, and passes on to `web-2` with the next fence.",
    "guide/pictures/watch.svg"
)]
#[doc = quoted!("## A lock for several steps: an agent", "sh", "guide/shell/agent.sh")]
#[doc = quoted!("## A lock for several steps: a job of CI", "yaml", "guide/shell/steps.yml")]
#[doc = quoted!("## A lock for several steps: a shell", "sh", "guide/shell/session.sh")]
#[doc = quoted!("## A write that refuses an old fence: SQLite", "sh", "guide/shell/fenced_sqlite.sh")]
#[doc = quoted!("## A write that refuses an old fence: PostgreSQL", "sh", "guide/shell/fenced_psql.sh")]
#[doc = quoted!("## systemd", "ini", "guide/shell/nightly.service")]
#[doc = quoted!("## cron", "text", "guide/shell/nightly.cron")]
#[doc = quoted!("## GitHub Actions", "yaml", "guide/shell/deploy.yml")]
#[doc = quoted!("## Kubernetes", "yaml", "guide/shell/cronjob.yaml")]
#[doc = quoted!("## The schema of the JSON", "json", "guide/shell/output.schema.json")]
pub mod shell {}

#[doc = include_str!("guide/other_languages.md")]
#[doc = quoted!("# Python", "python", "guide/other_languages/steps.py")]
#[doc = quoted!("# Go", "go", "guide/other_languages/steps.go")]
#[doc = quoted!("# Shell", "sh", "guide/other_languages/steps.sh")]
#[doc = quoted!("# One program under a lock: Python", "python", "guide/other_languages/run.py")]
#[doc = quoted!("# One program under a lock: shell", "sh", "guide/other_languages/run.sh")]
pub mod other_languages {}

// The snippets need the conformance suite, so they are doc tests of the package `syncguard-examples`.
#[cfg_attr(not(doctest), doc = include_str!("guide/custom_backend.md"))]
// An example of the package `syncguard-conformance`.
#[cfg_attr(not(doctest), doc = shown!("", "guide/custom_store.rs"))]
pub mod custom_backend {}

#[doc = include_str!("guide/from_set_nx.md")]
pub mod from_set_nx {}

#[doc = include_str!("guide/from_redlock.md")]
pub mod from_redlock {}

#[doc = include_str!("guide/from_redsync.md")]
pub mod from_redsync {}

#[doc = include_str!("guide/from_redisson.md")]
pub mod from_redisson {}

#[doc = include_str!("guide/from_shedlock.md")]
pub mod from_shedlock {}

#[doc = include_str!("guide/from_advisory_locks.md")]
pub mod from_advisory_locks {}

#[doc = include_str!("guide/from_mysql.md")]
pub mod from_mysql {}

#[doc = include_str!("guide/from_kubernetes.md")]
pub mod from_kubernetes {}

#[doc = include_str!("guide/from_client_go.md")]
pub mod from_client_go {}

#[doc = include_str!("guide/from_dynamodb.md")]
pub mod from_dynamodb {}

#[doc = include_str!("guide/from_typescript.md")]
pub mod from_typescript {}

#[doc = include_str!("guide/testing.md")]
#[doc = shown!("## Another process holds the lock", "../tests/own_code/busy.rs")]
#[doc = shown!("## The holder crashes", "../tests/own_code/crash.rs")]
#[doc = shown!("## The lock is lost", "../tests/own_code/loss.rs")]
#[doc = shown!("## The store is down, or denies writes", "../tests/own_code/failing_store.rs")]
#[doc = shown!("## The lock has expired, and the store is slow", "../tests/own_code/late.rs")]
pub mod testing {}

#[doc = include_str!("guide/how_it_is_tested.md")]
pub mod how_it_is_tested {}
