//! Each fuzz target over the corpus that is kept for it, so that neither can rot.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use syncguard_fuzz::TARGETS;

#[test]
fn each_target_takes_all_of_its_corpus() -> Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    for (name, check) in TARGETS {
        let folder = fs::read_dir(corpus.join(name)).with_context(|| name.to_owned())?;
        let mut inputs = 0;
        for file in folder {
            let input = fs::read(file?.path())?;
            check(&input);
            inputs += 1;
        }
        ensure!(inputs >= 10, "{name} has {inputs} inputs");
    }
    Ok(())
}

/// A target that nobody has listed would be run by nobody here.
#[test]
fn every_target_is_listed() -> Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/fuzz_targets");
    let mut files = Vec::new();
    for file in fs::read_dir(folder)? {
        let name = file?.path().file_stem().context("a name")?.to_string_lossy().into_owned();
        files.push(name);
    }
    files.sort();
    assert_eq!(files, TARGETS.map(|(name, _)| name));
    Ok(())
}
