//! The machine-readable files of `.github` are YAML, and the workflow runs the commands of `.ci/run`.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use yaml_rust2::YamlLoader;

use crate::cargo::root;

pub(super) fn check() -> Result<()> {
    let github = root().join(".github");
    for folder in ["workflows", "ISSUE_TEMPLATE"] {
        for entry in fs::read_dir(github.join(folder))? {
            readable(&entry?.path())?;
        }
    }
    let workflow = fs::read_to_string(github.join("workflows/ci.yml"))?;
    let script = fs::read_to_string(root().join(".ci/run"))?;
    for command in script.lines().filter(|line| line.starts_with("cargo ")) {
        let run = format!("run: {command}\n");
        ensure!(workflow.contains(&run), "ci.yml does not run `{command}`, as .ci/run does");
    }
    Ok(())
}

fn readable(file: &Path) -> Result<()> {
    let documents = YamlLoader::load_from_str(&fs::read_to_string(file)?)
        .with_context(|| format!("{}", file.display()))?;
    let whole =
        documents.len() == 1 && documents.iter().all(|document| document.as_hash().is_some());
    ensure!(whole, "{}: not one table", file.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_is_not_yaml() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("a.yml");
        for (text, fine) in [
            ("on: push\njobs:\n  a:\n    steps: []\n", true),
            ("on: push\njobs:\n  a: [\n", false),
            ("on: push\n  jobs: x\n", false),
            ("just text\n", false),
            ("", false),
        ] {
            fs::write(&file, text)?;
            assert_eq!(readable(&file).is_ok(), fine, "{text}");
        }
        Ok(())
    }
}
