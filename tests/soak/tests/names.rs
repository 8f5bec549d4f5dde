//! The workflow of the night and the guide's page of results name each kind of fleet.

use std::fs;
use std::path::Path;

use syncguard_test_services::store::Store;

use crate::kind::Kind;

fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn the_first_kind_of_a_store_has_its_name() {
    for store in Store::ALL.into_iter().filter(|store| store.is_shared()) {
        assert_eq!(Kind::of(store)[0].to_string(), store.name());
    }
}

#[test]
fn each_kind_runs_every_night() {
    let workflow = read(".github/workflows/nightly.yml");
    let matrix = workflow.split_once("        store: [").expect("a matrix").1;
    let mut named: Vec<&str> = matrix.split_once(']').expect("its end").0.split(", ").collect();
    let mut kinds: Vec<String> = Kind::all().map(|kind| kind.to_string()).collect();
    kinds.extend(["simulation", "schedules"].map(str::to_owned));
    named.sort_unstable();
    kinds.sort_unstable();
    assert_eq!(named, kinds);
}

/// The row of the guide's table of last runs.
const fn row(kind: Kind) -> &'static str {
    match kind {
        Kind::Redis => "Redis",
        Kind::RedisCluster => "Redis Cluster",
        Kind::Postgres => "PostgreSQL",
        Kind::Pgbouncer => "PostgreSQL behind PgBouncer",
        Kind::Etcd => "etcd, three members",
        Kind::Firestore => "Firestore emulator",
        Kind::Sqlite => "SQLite",
        Kind::ObjectStore => "object-store, Azurite",
    }
}

#[test]
fn the_guide_has_the_last_run_of_each_kind() {
    let page = read("crates/syncguard/src/guide/how_it_is_tested.md");
    let table = page.split_once("| run | date | commit |").expect("the table").1;
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let rows: Vec<Vec<&str>> =
        rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect();
    let mut named: Vec<&str> = rows.iter().map(|row| row[0]).collect();
    let mut runs: Vec<&str> = Kind::all().map(row).collect();
    runs.push("simulation of all stores but SQLite");
    named.sort_unstable();
    runs.sort_unstable();
    assert_eq!(named, runs);
    for row in rows {
        let [_, date, commit, requests, faults, broken] = row[..] else { panic!("{row:?}") };
        let [day, month, year] = date.split(' ').collect::<Vec<_>>()[..] else { panic!("{row:?}") };
        assert!(day.parse::<u8>().is_ok() && month.len() == 3 && year.len() == 4, "{row:?}");
        assert!(commit.len() == 8 && u32::from_str_radix(commit, 16).is_ok(), "{row:?}");
        let number = |text: &str| text.replace(' ', "").parse::<u64>().expect("a number");
        assert!(number(requests) > 100_000 && number(faults) > 1_000 && broken == "0", "{row:?}");
    }
}

#[test]
fn the_guide_has_each_rule() {
    let source = read("tests/history/src/invariant.rs");
    let invariants = source.lines().filter(|line| line.contains(" = ") && line.ends_with(','));
    let page = read("crates/syncguard/src/guide/how_it_is_tested.md");
    let table = page.split_once("| # | rule |\n").expect("the table of rules").1;
    let rules = table.lines().skip(1).take_while(|line| line.starts_with('|')).count();
    assert_eq!(rules, invariants.count());
    let word = ["Eleven", "Twelve", "Thirteen", "Fourteen"][rules - 11];
    assert!(page.contains(&format!("\n{word} rules hold ")), "{word}");
    assert!(source.starts_with(&format!("//! The {} invariants", word.to_lowercase())), "{word}");
}
