//! Each fuzz target runs over its kept corpus, so that neither can rot.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use syncguard_fuzz::Check;
use syncguard_test_services::store::Store;

/// The folders with targets, and their lists.
fn all() -> [(PathBuf, &'static [(&'static str, Check)]); 2] {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (of_core, of_backends) = (here.join("../crates/syncguard-core/fuzz"), here.join("fuzz"));
    [(of_core, &syncguard_core_fuzz::TARGETS), (of_backends, &syncguard_fuzz::TARGETS)]
}

/// The target for the records of a store.
const fn records_of(store: Store) -> Option<&'static str> {
    match store {
        // Nobody else writes those of memory; SQLite's schema checks types, and rusqlite reads columns by type.
        Store::Memory | Store::Sqlite => None,
        Store::Redis => Some("redis_record"),
        Store::Postgres => Some("postgres_row"),
        Store::Etcd => Some("etcd_record"),
        Store::Firestore => Some("firestore_document"),
        Store::ObjectStore => Some("object_record"),
    }
}

#[test]
fn the_records_of_each_store_have_a_target() {
    for target in Store::ALL.into_iter().filter_map(records_of) {
        assert!(syncguard_fuzz::TARGETS.iter().any(|(name, _)| *name == target), "{target}");
    }
}

#[test]
fn each_target_takes_all_of_its_corpus() -> Result<()> {
    for (folder, targets) in all() {
        for (name, check) in targets {
            let kept = folder.join("corpus").join(name);
            let mut inputs = 0;
            for file in fs::read_dir(kept).with_context(|| name.to_owned())? {
                let input = fs::read(file?.path())?;
                check(&input);
                inputs += 1;
            }
            ensure!(inputs >= 10, "{name} has {inputs} inputs");
        }
    }
    Ok(())
}

/// A target without an entry in a list would not run here.
#[test]
fn every_target_is_listed() -> Result<()> {
    for (folder, targets) in all() {
        let mut files = Vec::new();
        for file in fs::read_dir(folder.join("fuzz_targets"))? {
            let name = file?.path().file_stem().context("a name")?.to_string_lossy().into_owned();
            files.push(name);
        }
        files.sort();
        assert!(files.iter().eq(targets.iter().map(|(name, _)| name)), "{files:?}");
    }
    Ok(())
}
